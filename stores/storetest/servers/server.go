package servers

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// ErrNotInstalled says that a server's programs are not on this machine.
var ErrNotInstalled = errors.New("the server is not installed")

// startTimeout is how long a server may take to accept connections, on a busy machine.
const startTimeout = 60 * time.Second

// Server is one private server. Its methods are for one goroutine at a time.
type Server struct {
	name   string
	dir    string // removed by Stop
	port   int
	dsn    func(addr, user, database string) string
	driver string
	argv   []string
	as     *syscall.Credential // nil: this process's own

	cmd    *exec.Cmd
	exited chan struct{} // closed when cmd has ended
}

// Addr returns the server's address, host:port. It stays the same over restarts.
func (s *Server) Addr() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// DSN returns the address of a database for a user without a password; "" is the administrator, and the
// administrator's database.
func (s *Server) DSN(user, database string) string { return s.dsn(s.Addr(), user, database) }

// DSNVia is DSN by way of another address: that of a Proxy.
func (s *Server) DSNVia(addr, user, database string) string { return s.dsn(addr, user, database) }

// Exec runs statements as the administrator, in a database ("": the administrator's).
func (s *Server) Exec(ctx context.Context, database string, statements ...string) error {
	db, err := sql.Open(s.driver, s.DSN("", database))
	if err != nil {
		return err
	}
	defer db.Close()
	for _, statement := range statements {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// Start starts the server, again after Kill, and returns when it accepts connections.
func (s *Server) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		if err := s.launch(); err != nil {
			return err
		}
		err := s.ready(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		// It ended by itself: what is left of a killed one still holds the folder. Try again.
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("%s does not start: %w\n%s", s.name, err, s.log())
		}
	}
}

// ready returns when the server answers, or has ended.
func (s *Server) ready(ctx context.Context) error {
	for {
		err := s.Exec(ctx, "", `SELECT 1`)
		if err == nil {
			return nil
		}
		select {
		case <-s.exited:
			return err
		default:
		}
		if pause(ctx, 10*time.Millisecond) != nil {
			return fmt.Errorf("%s does not answer: %w\n%s", s.name, err, s.log())
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Server) log() string {
	data, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	return string(data[max(0, len(data)-2000):])
}

// Kill kills all of the server's processes with SIGKILL, and returns when they are gone.
func (s *Server) Kill() error { return s.end(syscall.SIGKILL) }

// Stop ends the server and removes its folder. Stopping twice is fine.
func (s *Server) Stop() error { return errors.Join(s.end(syscall.SIGKILL), os.RemoveAll(s.dir)) }

func (s *Server) end(sig syscall.Signal) error {
	if s.cmd == nil {
		return nil
	}
	family := append(descendants(s.cmd.Process.Pid), s.cmd.Process.Pid)
	err := s.signal(sig)
	<-s.exited
	s.cmd = nil
	for _, pid := range family {
		for range 1000 {
			if ended(pid) {
				break
			}
			_ = pause(context.Background(), 5*time.Millisecond)
		}
	}
	return err
}

// Pause freezes all of the server's processes (SIGSTOP): its port still accepts, and nothing answers.
func (s *Server) Pause() error { return s.signal(syscall.SIGSTOP) }

// Resume ends Pause.
func (s *Server) Resume() error { return s.signal(syscall.SIGCONT) }

// signal reaches the server first, so that it starts no more children, and then those that it has.
func (s *Server) signal(sig syscall.Signal) error {
	if s.cmd == nil {
		return errors.New("the server does not run")
	}
	children := descendants(s.cmd.Process.Pid)
	err := syscall.Kill(s.cmd.Process.Pid, sig)
	for _, pid := range append(children, descendants(s.cmd.Process.Pid)...) {
		_ = syscall.Kill(pid, sig) // it may be gone
	}
	return err
}

// freePort asks the system for a port that nobody uses now.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// ForTest returns the server, or skips the test if it is not installed; where the environment variable CI
// is set it fails the test instead.
func ForTest(t testing.TB, start func(context.Context) (*Server, error)) *Server {
	t.Helper()
	s, err := start(t.Context())
	if errors.Is(err, ErrNotInstalled) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}
