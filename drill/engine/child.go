package engine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// startTimeout is how long a child may take until it answers, on a busy machine.
const startTimeout = 30 * time.Second

// child is a server in a process of its own: this program, started again.
type child struct {
	argv    []string
	folder  string
	address string

	cmd  *exec.Cmd
	in   io.Closer     // the server ends with it
	done chan struct{} // closed once the process has been waited for
}

// newChild starts a server of a kind on a new folder and a free port.
func newChild(ctx context.Context, exe []string, kind Kind, folder string) (*child, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	// A server takes an address and not a listener: a free port is found by having had it.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &child{folder: folder, address: l.Addr().String()}
	if err := l.Close(); err != nil {
		return nil, err
	}
	c.argv = append(exe[:len(exe):len(exe)], string(kind), folder, c.address)
	return c, c.Start(ctx)
}

// Start starts the process, again after Kill, and returns when it answers.
func (c *child) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	log, err := os.OpenFile(filepath.Join(filepath.Dir(c.folder), filepath.Base(c.folder)+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(c.argv[0], c.argv[1:]...)
	cmd.Stderr, cmd.SysProcAttr = log, Attributes()
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	done, ready := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		said := false
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if !said && lines.Text() == readyLine {
				said = true
				close(ready)
			}
		}
		_ = cmd.Wait() // a killed process always "fails"; the log says more
	}()
	c.cmd, c.in, c.done = cmd, in, done
	select {
	case <-ready:
		return nil
	case <-done:
		return fmt.Errorf("%s ended by itself; see %s", filepath.Base(c.folder), log.Name())
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("%s does not answer: %w", filepath.Base(c.folder), ctx.Err()), c.Kill())
	}
}

// Kill ends the process with SIGKILL, and returns when it is gone.
func (c *child) Kill() error {
	if c.cmd == nil {
		return nil
	}
	err := c.signal(syscall.SIGKILL)
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	<-c.done
	_ = c.in.Close() // nobody reads it any more
	c.cmd = nil
	return err
}

// Pause freezes the process, a little after it returns: its port still accepts, and nothing answers.
func (c *child) Pause() error { return c.signal(syscall.SIGSTOP) }

// Resume ends Pause.
func (c *child) Resume() error { return c.signal(syscall.SIGCONT) }

// Stop is Kill; the folder is the run's.
func (c *child) Stop() error { return c.Kill() }

func (c *child) signal(s syscall.Signal) error {
	if c.cmd == nil {
		return errors.New("the server does not run")
	}
	return c.cmd.Process.Signal(s)
}
