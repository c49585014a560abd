package ledgeractor

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mattn/go-sqlite3"

	"github.com/leasehold/leasehold/messages"
)

// readers are the read-only connections of one ledger. They are opened when they are needed and
// closed when they have been idle: a node has thousands of ledgers, and most are not being read.
type readers struct {
	cfg     Config
	fail    failures
	notify  func(any) // to the actor, which has the timers
	slots   chan struct{}
	waiting atomic.Int64
	stop    context.Context // done when the ledger closes
	cancel  context.CancelFunc
	cutting chan struct{} // held by the one Cut that runs

	mu     sync.Mutex
	idle   []*reader // the last one was used last
	open   int
	closed bool
	active sync.WaitGroup
}

type reader struct {
	raw  *sqlite3.SQLiteConn
	used time.Time
}

func newReaders(cfg Config) *readers {
	p := &readers{cfg: cfg, fail: newFailures(cfg.Key, cfg.Path), notify: func(any) {},
		slots: make(chan struct{}, max(cfg.Limits.MaxReaders, 1)), cutting: make(chan struct{}, 1)}
	p.fail.reading = true
	p.stop, p.cancel = context.WithCancel(context.Background())
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
	p.active.Add(1)
	return nil
}

func (p *readers) leave() { p.active.Done() }

// acquire waits for a connection; release must follow.
func (p *readers) acquire(ctx context.Context) (*reader, error) {
	select {
	case p.slots <- struct{}{}:
	default:
		if err := p.wait(ctx); err != nil {
			return nil, err
		}
	}
	if err := p.enter(); err != nil {
		<-p.slots
		return nil, err
	}
	if r := p.pop(); r != nil {
		return r, nil
	}
	raw, err := openReader(ctx, p.cfg)
	if err != nil {
		p.leave()
		<-p.slots
		return nil, p.fail.typed(err)
	}
	raw.RegisterAuthorizer(readAuthorizer)
	p.mu.Lock()
	p.open++
	p.mu.Unlock()
	p.notify(watchReaders{})
	return &reader{raw: raw}, nil
}

func (p *readers) wait(ctx context.Context) error {
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

func (p *readers) release(r *reader) {
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
		_ = r.raw.Close() // nothing was written on it
	}
	<-p.slots
	p.leave()
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
		_ = r.raw.Close() // nothing was written on it
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

// close interrupts what is being read, waits for it, and closes every connection.
func (p *readers) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cancel()
	p.active.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.idle {
		p.open--
		_ = r.raw.Close() // nothing was written on it
	}
	p.idle = nil
}
