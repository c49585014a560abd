package dir_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/dir"
)

// The environment of a child: what it does, and where.
const (
	modeEnv = "LEASEHOLD_DIR_TEST_MODE"
	rootEnv = "LEASEHOLD_DIR_TEST_ROOT"
	nameEnv = "LEASEHOLD_DIR_TEST_NAME"
)

// child makes this process what its environment says, and ends it. The test binary starts itself again,
// so that the processes of a test are real ones.
func child() {
	mode, ok := os.LookupEnv(modeEnv)
	if !ok {
		return
	}
	// A write over RLIMIT_FSIZE shall be an error and not the end of the process.
	signal.Ignore(syscall.SIGXFSZ)
	store, err := dir.Open(context.Background(), dir.Config{Root: os.Getenv(rootEnv)})
	if err == nil {
		err = modes[mode](store, os.Getenv(nameEnv))
	}
	if err == nil {
		err = store.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

var modes = map[string]func(*dir.Store, string) error{
	// contend puts one key, once for each line that it reads.
	"contend": func(s *dir.Store, name string) error {
		fmt.Println("ready")
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			created, err := s.PutIfAbsent(context.Background(), in.Text(), body(name))
			if err != nil {
				return err
			}
			fmt.Println(created)
		}
		return nil
	},
	// write puts one object after the other until it is killed, and says so after each.
	"write": func(s *dir.Store, name string) error {
		for i := 0; ; i++ {
			key := fmt.Sprintf("killed/%s/%d/object", name, i)
			if created, err := s.PutIfAbsent(context.Background(), key, body(key)); err != nil || !created {
				return fmt.Errorf("put of %s: created %t, %w", key, created, err)
			}
			fmt.Println(key)
		}
	},
	// full puts objects until the disk, or this process's limit, is full.
	"full": func(s *dir.Store, name string) error {
		if name == "rlimit" {
			if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 300_000, Max: 300_000}); err != nil {
				return err
			}
		}
		for i := 0; ; i++ {
			key := fmt.Sprintf("full/%d/object", i)
			_, err := s.PutIfAbsent(context.Background(), key, bytes.Repeat([]byte{byte(i)}, (i+1)*50_000))
			if err != nil {
				_, there, gerr := s.Get(context.Background(), key, 1<<30)
				fmt.Println(i, messages.CodeOf(err), there, gerr)
				return nil
			}
		}
	},
}

// body is what an object of that name holds: half a MiB that only it has.
func body(name string) []byte { return bytes.Repeat([]byte(name+"\n"), 1<<19/(len(name)+1)) }

type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func start(t *testing.T, mode, root, name string) *process {
	t.Helper()
	// A race-enabled binary sleeps for a second when it exits, unless told otherwise.
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), modeEnv+"="+mode, rootEnv+"="+root, nameEnv+"="+name, "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	p := &process{cmd: cmd, in: in, out: bufio.NewScanner(out)}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	return p
}

// line returns the next line that the process writes.
func (p *process) line(t *testing.T) string {
	t.Helper()
	require.True(t, p.out.Scan(), "the child ended: %v", p.out.Err())
	return strings.TrimSpace(p.out.Text())
}
