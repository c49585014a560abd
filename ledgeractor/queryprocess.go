package ledgeractor

import (
	"bufio"
	"bytes"
	"context"
	"database/sql/driver"
	"errors"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/leasehold/leasehold/internal/localfile"
	"github.com/leasehold/leasehold/messages"
)

var errQueriesClosed = &messages.Error{Code: messages.CodeClosed, Message: "the node's queries are closed"}

// queryProcess is a query process as the node sees it: this executable, started once more. One query at a time
// uses it.
type queryProcess struct {
	set     *queryProcesses
	cmd     *exec.Cmd
	conn    net.Conn
	limit   atomic.Int64  // bytes of a frame
	frames  chan frame    // of the query that runs; closed as dead is
	forgot  chan struct{} // a ledger was closed
	doomed  chan struct{} // closed when it was killed
	dead    chan struct{} // closed when the process has ended, and with it its locks on files
	killing sync.Once
	stderr  head
	writing sync.Mutex
	forgets sync.Mutex // one forget at a time

	ledgers map[string]uint64 // that it has open: when each was used last; guarded by set.mu
	uses    uint64            // guarded by set.mu
}

type frame struct {
	kind byte
	body []byte
}

// startQueryProcess starts a process. set.mu is held.
func startQueryProcess(set *queryProcesses) (_ *queryProcess, err error) {
	failed := func(err error) error {
		return &messages.Error{Code: messages.CodeUnavailable, Message: localfile.Because("cannot start a query process", err), Err: err}
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, failed(err)
	}
	defer theirs.Close()
	conn, err := net.FileConn(ours)
	err = errors.Join(err, ours.Close())
	if err != nil {
		return nil, failed(err)
	}
	p := &queryProcess{set: set, conn: conn, frames: make(chan frame, 4), forgot: make(chan struct{}, 1),
		doomed: make(chan struct{}), dead: make(chan struct{}), ledgers: make(map[string]uint64)}
	path, err := executable()
	if err != nil {
		_ = conn.Close()
		return nil, failed(err)
	}
	p.cmd = &exec.Cmd{
		Path: path, Args: queryProcessArgs(set.cfg.Memory), ExtraFiles: []*os.File{theirs}, Stderr: &p.stderr,
		// Nothing of the node's own environment: it may hold secrets. With more than one arena glibc takes memory for each thread.
		Env: []string{"MALLOC_ARENA_MAX=1", "SQLITE_TMPDIR=" + set.cfg.TempDir, queryProcessEnv + "=1"},
		// A group of its own: what a terminal sends to the node is not for it.
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	if err := p.cmd.Start(); err != nil {
		_ = conn.Close()
		return nil, failed(err)
	}
	set.ended.Add(1)
	go p.read()
	return p, nil
}

// executable is the file of this very program, also when another one has taken its name.
func executable() (string, error) {
	if runtime.GOOS == "linux" {
		return "/proc/self/exe", nil
	}
	return os.Executable()
}

func socketPair() (a, b *os.File, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, err
	}
	syscall.CloseOnExec(fds[0])
	syscall.CloseOnExec(fds[1])
	return os.NewFile(uintptr(fds[0]), "queries"), os.NewFile(uintptr(fds[1]), "queries"), nil
}

// read passes on what the process says, until its end.
func (p *queryProcess) read() {
	defer p.set.ended.Done()
	for r := bufio.NewReaderSize(p.conn, 64<<10); ; {
		kind, body, err := readFrame(r, p.limit.Load()+frameOverhead)
		if err != nil {
			break
		}
		to, m := p.frames, frame{kind, body}
		if kind == frameForgot {
			select {
			case p.forgot <- struct{}{}:
				continue
			default: // nobody asked
				to = nil
			}
		}
		select {
		case to <- m: // whoever asked reads to the end of the query
			continue
		case <-p.doomed:
		}
		break
	}
	p.kill()
	err := p.cmd.Wait()
	_ = p.conn.Close() // the other end is gone
	if said := p.stderr.String(); said != "" {
		p.set.cfg.Log.Warn("a query process ended", "error", err, "said", said)
	}
	p.set.gone(p)
	close(p.dead)
	close(p.frames)
}

// kill ends the process at once.
func (p *queryProcess) kill() {
	p.killing.Do(func() {
		_ = p.cmd.Process.Kill() // it fails if the process has ended
		close(p.doomed)
	})
}

func (p *queryProcess) send(kind byte, body []byte) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	return writeFrame(p.conn, kind, body)
}

// run runs a query. It is not finished if the caller gave up, or sink did: then settle must follow.
func (p *queryProcess) run(ctx context.Context, q childQuery, sink rowSink) (end queryEnd, finished bool, err error) {
	body, err := q.encode()
	if err != nil {
		return end, true, err
	}
	p.limit.Store(q.maxBytes)
	stopped := context.AfterFunc(ctx, p.kill) // a process that does not read
	err = p.send(frameQuery, body)
	if !stopped() || err != nil {
		p.kill()
		if ctx.Err() != nil {
			return end, false, causeOf(ctx)
		}
		<-p.dead
		return end, false, p.died()
	}
	var row []driver.Value
	for {
		select {
		case m, ok := <-p.frames:
			switch {
			case !ok:
				return end, false, p.died()
			case m.kind == frameColumns:
				names, err := decodeStrings(m.body)
				if err != nil {
					return end, false, p.malformed(err)
				}
				row = make([]driver.Value, len(names))
				sink.columns(names)
			case m.kind == frameRow:
				if err := decodeRow(m.body, row); err != nil {
					return end, false, p.malformed(err)
				}
				if more, err := sink.row(row); err != nil || !more {
					end.truncated = true
					return end, false, err
				}
			case m.kind == frameEnd:
				end, err := decodeQueryEnd(m.body)
				if err != nil && !errors.As(err, new(*messages.Error)) {
					return end, false, p.malformed(err)
				}
				return end, true, err
			default:
				return end, false, p.malformed(errWire)
			}
		case <-ctx.Done():
			return end, false, causeOf(ctx)
		}
	}
}

// settle interrupts what a query that was given up still does, and reads to its end. It returns false if the process had to be
// killed, or is gone.
func (p *queryProcess) settle(stop context.Context) bool {
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_ = p.send(frameCancel, nil) // it fails if the process is gone
	}()
	defer func() { <-sent }()
	patience := time.AfterFunc(settleTime, p.kill)
	defer patience.Stop()
	defer context.AfterFunc(stop, p.kill)()
	for m := range p.frames {
		if m.kind == frameEnd {
			return true
		}
	}
	return false
}

// malformed is the answer when a process does not keep to the protocol: it is not trusted any more.
func (p *queryProcess) malformed(err error) error {
	p.kill()
	return &messages.Error{Code: messages.CodeInternal, Message: "a query process does not speak the protocol", Err: err}
}

// died is the answer when a process has ended by itself. What SQLite needs beyond its bound fails alone; what the result, the
// arguments and the parser need beside it does not.
func (p *queryProcess) died() error {
	said := p.stderr.String()
	status, _ := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case p.set.isClosed():
		return errQueriesClosed
	case status.Signaled() && status.Signal() == syscall.SIGKILL, strings.Contains(said, "memory"):
		return &messages.Error{Code: messages.CodeTooLarge, Message: "the read needs more memory than a query process has"}
	}
	return &messages.Error{Code: messages.CodeInternal, Message: "the query's process ended: " + p.cmd.ProcessState.String()}
}

// forget closes a ledger in the process; no query uses it.
func (p *queryProcess) forget(path string) {
	p.forgets.Lock()
	defer p.forgets.Unlock()
	if p.send(frameForget, []byte(path)) != nil {
		<-p.dead
		return
	}
	patience := time.NewTimer(10 * settleTime)
	defer patience.Stop()
	select {
	case <-p.forgot:
	case <-p.dead:
	case <-patience.C:
		p.kill()
		<-p.dead
	}
}

// head keeps the beginning of what a process says when it crashes.
type head struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

const headBytes = 400

// Write implements io.Writer.
func (h *head) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.buf.Write(b[:min(len(b), headBytes-h.buf.Len())])
	return len(b), nil
}

// String returns the first line.
func (h *head) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	line, _, _ := bytes.Cut(h.buf.Bytes(), []byte("\n"))
	return string(line)
}
