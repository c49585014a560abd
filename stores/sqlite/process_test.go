package sqlite_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/sqlite"
	"github.com/leasehold/leasehold/stores/storetest"
)

// The environment of a child process: what it does, on which file.
const (
	modeEnv = "LEASEHOLD_SQLITE_TEST_MODE"
	pathEnv = "LEASEHOLD_SQLITE_TEST_PATH"
)

// child makes this process what its environment says, and ends it.
func child() {
	mode, ok := os.LookupEnv(modeEnv)
	if !ok {
		return
	}
	signal.Ignore(syscall.SIGXFSZ) // a write over RLIMIT_FSIZE shall be an error, not the end
	cfg := sqlite.Config{Path: os.Getenv(pathEnv)}
	if mode == "alone" {
		cfg.Now = time.Now // as on a system without a clock that processes share
	}
	store, err := sqlite.Open(context.Background(), cfg)
	if err == nil {
		err = modes[mode](store)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

var killedKey = messages.Key{Org: "acme", Tenant: "t-3129611eac9be1d5994a2b216b06ed27"}

var modes = map[string]func(*sqlite.Store) error{
	// alone uses the file until it is killed.
	"alone": func(s *sqlite.Store) error {
		lease, err := s.Acquire(context.Background(), killedKey, "alone", time.Hour)
		if err != nil {
			return err
		}
		fmt.Println(lease.Epoch)
		select {}
	},
	// take acquires and releases one key until it is killed, and says every epoch that it was granted.
	"take": func(s *sqlite.Store) error {
		owner := fmt.Sprint("process-", os.Getpid())
		for {
			lease, err := s.Acquire(context.Background(), killedKey, owner, messages.MinTTL)
			if messages.CodeOf(err) == messages.CodeHeld {
				continue
			}
			if err != nil {
				return err
			}
			fmt.Println(lease.Epoch)
			if err := s.Release(context.Background(), killedKey, owner, lease.Epoch); err != nil && messages.CodeOf(err) != messages.CodeLost {
				return err
			}
		}
	},
	// full acquires keys until the limit on the size of its files is met, says the error, lifts the
	// limit and goes on: with the same store.
	"full": func(s *sqlite.Store) error {
		var before syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
			return err
		}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 200_000, Max: before.Max}); err != nil {
			return err
		}
		var granted []messages.Key
		var failure error
		for failure == nil {
			key := storetest.NewKey()
			if _, failure = s.Acquire(context.Background(), key, "a", time.Hour); failure == nil {
				granted = append(granted, key)
			}
		}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
			return err
		}
		key := storetest.NewKey()
		if _, err := s.Acquire(context.Background(), key, "a", time.Hour); err != nil {
			return fmt.Errorf("after the disk had space again: %w", err)
		}
		if err := s.Close(); err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(full{Granted: append(granted, key), Err: messages.AsError(failure)})
	},
}

type full struct {
	Granted []messages.Key
	Err     *messages.Error
}

func startChild(t *testing.T, mode, path string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), modeEnv+"="+mode, pathEnv+"="+path, "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	return cmd, lines
}

// Processes that are killed in the middle of operations leave a file that opens at once, in which every
// grant that they were told of stands, and no epoch is missing.
func TestB4_KilledProcessesLeaveAWholeTrail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases.db")
	told := map[uint64]int{}
	for round := range 6 {
		victim, victimSaid := startChild(t, "take", path)
		rival, rivalSaid := startChild(t, "take", path)
		for range 3 + 5*round {
			require.True(t, victimSaid.Scan())
			note(t, told, victimSaid.Text())
		}
		require.NoError(t, victim.Process.Signal(syscall.SIGKILL))
		require.True(t, rivalSaid.Scan(), "the rival is not held up by the death")
		note(t, told, rivalSaid.Text())
		require.NoError(t, rival.Process.Signal(syscall.SIGKILL))
		for victimSaid.Scan() {
			note(t, told, victimSaid.Text())
		}
		for rivalSaid.Scan() {
			note(t, told, rivalSaid.Text())
		}
		require.Error(t, victim.Wait())
		require.Error(t, rival.Wait())

		store, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
		require.NoError(t, err)
		trail, err := store.History(t.Context(), killedKey)
		require.NoError(t, err)
		epoch := uint64(0)
		for _, e := range trail {
			if e.Op == messages.OpAcquire {
				epoch++
				require.Equal(t, epoch, e.Epoch)
			}
		}
		for e, times := range told {
			require.LessOrEqual(t, e, epoch, "a grant that was told of is not in the trail")
			require.Equal(t, 1, times, "epoch %d was told of %d times", e, times)
		}
		require.NoError(t, store.Close())
	}
	require.Greater(t, len(told), 60)
}

func note(t *testing.T, told map[uint64]int, line string) {
	t.Helper()
	var epoch uint64
	_, err := fmt.Sscan(line, &epoch)
	require.NoError(t, err)
	told[epoch]++
}

// A full disk is a store that does not answer. What had been granted stands, and with space again the
// same store goes on.
func TestFullDisk_IsUnavailable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases.db")
	cmd, lines := startChild(t, "full", path)
	require.True(t, lines.Scan())
	var said full
	require.NoError(t, json.Unmarshal(lines.Bytes(), &said))
	require.NoError(t, cmd.Wait())
	require.Equal(t, messages.CodeUnavailable, said.Err.Code)
	require.Equal(t, messages.CodeStorage, said.Err.Cause)
	require.Greater(t, len(said.Granted), 3)

	store := open(t, sqlite.Config{Path: path})
	for _, key := range said.Granted {
		_, ok, err := store.Read(t.Context(), key)
		require.NoError(t, err)
		require.True(t, ok)
	}
	all, err := store.Leases(t.Context(), "", 1<<20)
	require.NoError(t, err)
	require.Len(t, all, len(said.Granted), "the refused one left nothing")
}

// Where processes share no clock one process uses a file. The next one may when it is dead, however it died.
func TestClock_WithoutASharedClockASecondProcessIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases.db")
	cmd, lines := startChild(t, "alone", path)
	require.True(t, lines.Scan())
	for _, now := range []func() time.Time{nil, time.Now} {
		_, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Now: now})
		require.ErrorIs(t, err, messages.ErrUnavailable)
		require.ErrorContains(t, err, "another process uses the lease file")
	}
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	store := open(t, sqlite.Config{Path: path, Now: time.Now})
	_, err := store.Acquire(t.Context(), killedKey, "a", time.Second)
	require.ErrorIs(t, err, messages.ErrHeld)
}
