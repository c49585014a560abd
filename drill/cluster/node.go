package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/leasehold/leasehold/drill/engine"
)

// node is a node of the cluster, over all its processes.
type node struct {
	name    string
	command []string // that is a node
	app     string   // the version of the drill's application
	args    []string
	http    *http.Client
	logs    string
	starts  int

	proc    *os.Process
	address string        // of its HTTP API
	done    chan struct{} // closed once the process has been waited for
	exit    error         // read after done

	lives []life
}

// life is one process of a node, in the drill's own time.
type life struct {
	log     string
	started time.Time
	stopped time.Time // killed, or asked to end; zero: neither
	frozen  [][2]time.Time
}

// start starts the node's process and returns when it answers.
func (n *node) start(ctx context.Context) error {
	n.starts++
	path := filepath.Join(n.logs, fmt.Sprintf("%s.%d.log", n.name, n.starts))
	log, err := os.Create(path)
	if err != nil {
		return err
	}
	defer log.Close()
	args := append(slices.Clone(n.command[1:]), AppFlag+n.app)
	cmd := exec.Command(n.command[0], append(args, n.args...)...)
	cmd.Stderr, cmd.SysProcAttr = log, engine.Attributes()
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	n.lives = append(n.lives, life{log: path, started: time.Now()})
	if err := cmd.Start(); err != nil {
		return err
	}
	listening, done := make(chan string, 1), make(chan struct{})
	n.proc, n.done = cmd.Process, done
	go func() {
		defer close(done)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if address, ok := strings.CutPrefix(lines.Text(), "listening "); ok {
				listening <- address
			}
		}
		n.exit = cmd.Wait()
	}()
	select {
	case n.address = <-listening:
	case <-done:
		return fmt.Errorf("node %s ended by itself: %w; see %s", n.name, n.exit, path)
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("node %s does not start: %w", n.name, ctx.Err()), n.kill())
	}
	return n.await(ctx, "/readyz")
}

// await waits until a path of the node's API answers 200.
func (n *node) await(ctx context.Context, path string) error {
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, n.address+path, nil)
		if err != nil {
			return err
		}
		if answer, err := n.http.Do(r); err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-n.done:
			return fmt.Errorf("node %s ended by itself: %w", n.name, n.exit)
		case <-ctx.Done():
			return fmt.Errorf("node %s, %s: %w", n.name, path, ctx.Err())
		}
	}
}

// get reads a document from the node's API.
func (n *node) get(ctx context.Context, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, n.address+path, nil)
	if err != nil {
		return err
	}
	answer, err := n.http.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", r.URL, answer.Status)
	}
	return json.NewDecoder(answer.Body).Decode(into)
}

func (n *node) life() *life { return &n.lives[len(n.lives)-1] }

// stop asks the process to end, and returns when it has handed everything off.
func (n *node) stop(ctx context.Context) error {
	n.life().stopped = time.Now()
	if err := n.proc.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-n.done:
		if n.exit != nil {
			return fmt.Errorf("node %s: %w; see %s", n.name, n.exit, n.life().log)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("node %s does not stop: %w", n.name, ctx.Err())
	}
}

func (n *node) kill() error {
	if n.proc == nil {
		return nil
	}
	if l := n.life(); l.stopped.IsZero() {
		l.stopped = time.Now()
	}
	err := n.proc.Kill()
	<-n.done
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

func (n *node) freeze() error {
	l := n.life()
	l.frozen = append(l.frozen, [2]time.Time{time.Now()})
	return n.proc.Signal(syscall.SIGSTOP)
}

func (n *node) resume() error {
	l := n.life()
	l.frozen[len(l.frozen)-1][1] = time.Now()
	return n.proc.Signal(syscall.SIGCONT)
}

func (n *node) gone() bool {
	select {
	case <-n.done:
		return true
	default:
		return false
	}
}
