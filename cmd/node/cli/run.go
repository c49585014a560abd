package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/leasehold/leasehold/cmd/node/admin"
	"github.com/leasehold/leasehold/cmd/node/config"
	"github.com/leasehold/leasehold/cmd/node/daemon"
)

type runCommand struct {
	config.Config `embed:""`
}

// Run runs the daemon.
func (c *runCommand) Run(ctx context.Context, p *process) error {
	log, level := c.Logger(p.stderr)
	err := daemon.Run(ctx, daemon.Options{
		Config: c.Config, Schemes: p.Schemes, App: p.App, Cluster: p.Cluster,
		Stdout: p.stdout, Log: log, Level: level, Signals: p.signals, Reread: p.reread,
	})
	if errors.Is(err, daemon.ErrNotHandedOff) {
		return errFailed{err}
	}
	return err
}

// errFailed hides the codes of what it wraps, where the exit code must say no more than "failed".
type errFailed struct{ err error }

func (e errFailed) Error() string { return e.err.Error() }

// serves prepares the process for a node: no signal that can be caught ends it without its handoffs, and nobody who
// logs waits for whoever reads the log. What it returns waits for a moment until the log is written.
//
// The signals that are not named here do nothing to a Go program, but for those by which the system tells it of a
// fault of its own (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGSTKFLT), SIGSTOP and SIGTSTP, which suspend
// it, and 32 to 34, which belong to C libraries.
func (p *process) serves(c config.Config) (flush func()) {
	// A write to a pipe that nobody reads fails, and one to a terminal from the background succeeds.
	signal.Ignore(syscall.SIGPIPE, syscall.SIGTTOU, syscall.SIGTTIN)
	signal.Notify(p.signals, syscall.SIGTERM, os.Interrupt, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGHUP)
	stdout, stderr := newOutlet(os.Stdout, nil), newOutlet(os.Stderr, func(lost int64) []byte {
		var line bytes.Buffer
		log, _ := c.Logger(&line)
		log.Warn("lines of the log were lost: nobody read them in time, or they could not be written", "lines", lost)
		return line.Bytes()
	})
	p.stdout, p.stderr = stdout, stderr
	return func() { stdout.flush(flushTimeout); stderr.flush(flushTimeout) }
}

// reread returns the configuration as it would be read at a start now.
func (p *process) reread() (config.Config, error) {
	var c commands
	parser, err := newParser(&c, &admin.Env{})
	if err != nil {
		return config.Config{}, err
	}
	_, err = parser.Parse(p.args)
	return c.Run.Config, err
}
