package s3

import (
	"context"
	"errors"
	"sync"

	"github.com/leasehold/leasehold/messages"
)

// logReads lets those that want to read one renewal log at the same time share the reads: who takes over thousands of leases
// of a dead process would read its log thousands of times. A read answers only those that asked before it was sent.
type logReads struct {
	mu     sync.Mutex
	byName map[string]*logRead // the next one of each log; nil: one is in flight, and nobody waits for another
}

type logRead struct {
	done chan struct{} // closed when what follows is set
	view logView
	err  error
}

// loadLog reads the newest version of a renewal log; its log is nil if there is none. Of a log that was seen closed the
// version is known.
func (l *Leases) loadLog(ctx context.Context, name string) (logView, error) {
	l.reads.mu.Lock()
	next, running := l.reads.byName[name]
	if next == nil {
		next = &logRead{done: make(chan struct{})}
		l.reads.byName[name] = next
	}
	l.reads.mu.Unlock()
	if !running && !l.background(func() { l.readLog(name) }) {
		l.readLog(name) // sends nothing any more, and answers whoever waits
	}
	select {
	case <-next.done:
		return next.view, next.err
	case <-ctx.Done():
		return logView{}, l.failure(ctx, ctx.Err(), "", "the renewal log was not read")
	}
}

// readLog reads a log for as long as somebody waits for it.
func (l *Leases) readLog(name string) {
	for {
		l.reads.mu.Lock()
		now := l.reads.byName[name]
		if now == nil {
			delete(l.reads.byName, name)
			l.reads.mu.Unlock()
			return
		}
		l.reads.byName[name] = nil
		l.reads.mu.Unlock()
		if l.ctx.Err() != nil {
			now.err = l.failure(l.ctx, errors.New("closed"), "", "not read")
		} else {
			now.view, now.err = l.loadLogVia(l.ctx, l.inTimeFor(messages.MaxTTL), name)
		}
		close(now.done)
	}
}
