package ledgeractor

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/leasehold/leasehold/messages"
)

// readers are the reads of one ledger, and the read-only connections of this process. Those are opened when they are needed and
// closed when they have been idle: a node has thousands of ledgers, and most are not being read.
type readers struct {
	cfg     Config
	fail    failures
	look    func() error // at the files
	notify  func(any)    // to the actor, which has the timers
	slots   chan struct{}
	waiting atomic.Int64
	stop    context.Context // done when the ledger closes
	cancel  context.CancelFunc
	cutting chan struct{} // held by the one Cut that runs

	mu      sync.Mutex
	idle    []*reader // the last one was used last
	open    int
	closed  bool
	inside  int             // reads and cuts that may pin the write-ahead log
	paused  chan struct{}   // closed when reads may begin again; nil: they may
	round   context.Context // of the reads that run: done when they must end
	endThem context.CancelCauseFunc
	active  sync.WaitGroup
}

func newReaders(cfg Config, look func() error) *readers {
	p := &readers{cfg: cfg, look: look, fail: newFailures(cfg.Key, cfg.Path), notify: func(any) {},
		slots: make(chan struct{}, max(cfg.Limits.MaxReaders, 1)), cutting: make(chan struct{}, 1)}
	p.fail.reading = true
	p.stop, p.cancel = context.WithCancel(context.Background())
	p.round, p.endThem = context.WithCancelCause(context.Background())
	return p
}

// attach is called before the ledger is open, and so before the first read.
func (p *readers) attach(notify func(any), corrupt func(error)) {
	p.notify = notify
	p.fail.corrupt = corrupt
}

// enter counts a user of the file, or returns CodeClosed; leave must follow.
func (p *readers) enter() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return closedError(p.cfg.Key)
	}
	p.inside++
	p.active.Add(1)
	return nil
}

func (p *readers) leave() {
	p.mu.Lock()
	p.inside--
	last := p.inside == 0 && p.paused != nil
	p.mu.Unlock()
	if last {
		p.notify(readersGone{})
	}
	p.active.Done()
}

// join is enter for a read: it waits while reads are paused, and the context that it returns is done too when the
// ledger closes, or when the reads have to make room for a checkpoint; its cause is a *messages.Error then.
func (p *readers) join(ctx context.Context) (_ context.Context, leave func(), err error) {
	for {
		p.mu.Lock()
		paused, round := p.paused, p.round
		if p.closed {
			p.mu.Unlock()
			return nil, nil, closedError(p.cfg.Key)
		}
		if paused == nil {
			p.inside++
			p.active.Add(1)
			p.mu.Unlock()
			ctx, cancel := context.WithCancelCause(ctx)
			stop := context.AfterFunc(p.stop, func() { cancel(closedError(p.cfg.Key)) })
			end := context.AfterFunc(round, func() { cancel(context.Cause(round)) })
			return ctx, func() { stop(); end(); cancel(nil); p.leave() }, nil
		}
		p.mu.Unlock()
		select {
		case <-paused:
		case <-ctx.Done():
			return nil, nil, causeOf(ctx)
		case <-p.stop.Done():
			return nil, nil, closedError(p.cfg.Key)
		}
	}
}

// pause keeps reads from beginning, and reports whether none is running. If some are, readersGone is sent when the last one has
// ended.
func (p *readers) pause() (none bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paused == nil {
		p.paused = make(chan struct{})
	}
	return p.inside == 0
}

// evict ends the reads that run.
func (p *readers) evict() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endThem(&messages.Error{Code: messages.CodeOverloaded, Key: p.fail.key, RetryAfter: overloadedRetry,
		Message: "the read took so long that the ledger's write-ahead log grew over its bound"})
	p.round, p.endThem = context.WithCancelCause(context.Background())
}

// resume lets reads begin again.
func (p *readers) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paused != nil {
		close(p.paused)
		p.paused = nil
	}
}

// wait waits for the slot of a page of events; signal must follow. (Queries have their turns: see Queries.)
func (p *readers) wait(ctx context.Context) error {
	select {
	case p.slots <- struct{}{}:
		return nil
	default:
	}
	defer p.waiting.Add(-1)
	if p.waiting.Add(1) > int64(p.cfg.Limits.MaxQueued) {
		return &messages.Error{Code: messages.CodeOverloaded, Key: p.fail.key, Message: "too many reads wait for this ledger", RetryAfter: overloadedRetry}
	}
	select {
	case p.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return messages.AsError(ctx.Err())
	case <-p.stop.Done():
		return closedError(p.cfg.Key)
	}
}

func (p *readers) signal() { <-p.slots }

// connection returns an idle connection, or a new one; giveBack must follow.
func (p *readers) connection(ctx context.Context) (*reader, error) {
	if r := p.pop(); r != nil {
		return r, nil
	}
	r, err := newReader(ctx, p.cfg)
	if lost := p.look(); lost != nil { // what was opened is not the ledger
		if err == nil {
			r.close()
		}
		err = p.fail.storage("open the ledger", lost)
		p.notify(lookAtFiles{})
	}
	if err != nil {
		return nil, err
	}
	if err := boundPatterns(r.raw); err != nil {
		r.close()
		return nil, err
	}
	p.mu.Lock()
	p.open++
	p.mu.Unlock()
	p.notify(watchReaders{})
	return r, nil
}

func (p *readers) pop() *reader {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.idle)
	if n == 0 {
		return nil
	}
	r := p.idle[n-1]
	p.idle = p.idle[:n-1]
	return r
}

func (p *readers) giveBack(r *reader) {
	r.used = p.cfg.Now()
	p.mu.Lock()
	keep := !p.closed
	if keep {
		p.idle = append(p.idle, r)
	} else {
		p.open--
	}
	p.mu.Unlock()
	if !keep {
		r.close()
	}
}

// sweep closes what has been idle for long, and returns how many connections are open.
func (p *readers) sweep() int {
	now := p.cfg.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := p.idle[:0]
	for _, r := range p.idle {
		if now.Sub(r.used) < p.cfg.Limits.ReaderIdle {
			kept = append(kept, r)
			continue
		}
		p.open--
		r.close()
	}
	clear(p.idle[len(kept):])
	p.idle = kept
	return p.open
}

func (p *readers) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open
}

// ofProcess makes the error of a query process one of this ledger.
func (p *readers) ofProcess(err error) error {
	var typed *messages.Error
	if !errors.As(err, &typed) {
		return err
	}
	out := *typed
	out.Key = p.fail.key
	if out.Code == messages.CodeCorrupt {
		p.fail.corrupt(&out)
	}
	return &out
}

// close ends what is being read, waits for it, and closes every connection.
func (p *readers) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cancel()
	p.active.Wait()
	if processes := p.cfg.Queries.processes; processes != nil {
		processes.forget(p.cfg.Path)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.idle {
		p.open--
		r.close()
	}
	p.idle = nil
}
