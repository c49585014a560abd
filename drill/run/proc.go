package run

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/leasehold/leasehold/drill/engine"
	"github.com/leasehold/leasehold/drill/record"
	"github.com/leasehold/leasehold/drill/replica"
)

// proc is one process of a replica.
type proc struct {
	name  string // "r2.3"
	index int    // of its node
	cmd   *exec.Cmd
	in    io.WriteCloser
	tail  *record.Tail
	done  chan struct{} // closed once it has been waited for

	// Guarded by fleet.mu.
	started bool
	obeyed  map[string]int  // commands that have taken effect
	uploads map[string]bool // images on their way
	// When the newest renewal of a tenant that succeeded was sent, and how many there were.
	renewed  map[int]int64
	renewals map[int]int
}

// start starts a process. It ends with the drill: by the end of its standard input, and, stopped or not,
// by a signal of the system where there is one for that (see engine.Attributes).
func start(exe []string, index int, cfg replica.Config) (*proc, error) {
	arg, err := json.Marshal(cfg)
	if err != nil {
		return nil, fmt.Errorf("start a replica: %w", err)
	}
	p := &proc{name: cfg.Proc(), index: index, done: make(chan struct{}), obeyed: map[string]int{}, uploads: map[string]bool{},
		renewed: map[int]int64{}, renewals: map[int]int{},
		tail: record.NewTail(replica.RecordPath(cfg.Dir, cfg.Proc()))}
	path := replica.LogPath(cfg.Dir, cfg.Proc())
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("start a replica: %w", err)
	}
	log, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("start a replica: %w", err)
	}
	defer log.Close()
	p.cmd = exec.Command(exe[0], append(exe[1:len(exe):len(exe)], string(arg))...)
	p.cmd.Stderr = log
	p.cmd.SysProcAttr = engine.Attributes()
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start a replica: %w", err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a replica: %w", err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // a killed process always "fails"; what it did is in its record
	}()
	return p, nil
}

// command sends a command to the process; a process that is gone hears nothing.
func (p *proc) command(c string) {
	_, _ = io.WriteString(p.in, c+"\n")
}

// signal sends a signal. The process has not been waited for, or is gone: its id is never another's.
func (p *proc) signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

func (p *proc) gone() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}
