package ledgeractor

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// queryProcesses are the query processes of a node: at most one for each query that may run, started when
// they are needed, and kept.
type queryProcesses struct {
	cfg    QueriesConfig
	killed atomic.Uint64

	mu     sync.Mutex
	idle   []*queryProcess // the last one was used last
	alive  map[*queryProcess]struct{}
	closed bool
	ended  sync.WaitGroup // the goroutines
}

func newQueryProcesses(cfg QueriesConfig) *queryProcesses {
	return &queryProcesses{cfg: cfg, alive: make(map[*queryProcess]struct{})}
}

// get returns a process that is idle, rather one that has the ledger open, or a new one.
func (s *queryProcesses) get(path string) (*queryProcess, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errQueriesClosed
	}
	for pass := range 2 {
		for i := len(s.idle) - 1; i >= 0; i-- {
			p := s.idle[i]
			if _, open := p.ledgers[path]; open || pass == 1 {
				s.idle = slices.Delete(s.idle, i, i+1)
				return p, nil
			}
		}
	}
	p, err := startQueryProcess(s)
	if err != nil {
		return nil, err
	}
	s.alive[p] = struct{}{}
	return p, nil
}

// opens notes that a process is about to use a ledger, and returns the one that it should close for that.
func (s *queryProcesses) opens(p *queryProcess, path string) (evict string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.uses++
	p.ledgers[path] = p.uses
	if len(p.ledgers) <= maxProcessLedgers {
		return ""
	}
	evict = path
	for other, used := range p.ledgers {
		if used < p.ledgers[evict] {
			evict = other
		}
	}
	delete(p.ledgers, evict)
	return evict
}

// warm starts a process in place of one that was killed.
func (s *queryProcesses) warm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.alive) >= s.cfg.Max {
		return
	}
	if p, err := startQueryProcess(s); err == nil { // else the next query will say why
		s.alive[p] = struct{}{}
		s.idle = append(s.idle, p)
	}
}

// put takes a process back, if it is alive.
func (s *queryProcesses) put(p *queryProcess) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, alive := s.alive[p]; alive && !s.closed {
		s.idle = append(s.idle, p)
	}
}

// gone notes that a process has ended.
func (s *queryProcesses) gone(p *queryProcess) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.alive, p)
	if i := slices.Index(s.idle, p); i >= 0 {
		s.idle = slices.Delete(s.idle, i, i+1)
	}
}

// run runs a query and gives its rows to sink. done is called when nothing of it is left in the process, or the process is
// gone: before run returns, or after. When stop is done, a query that does not end is killed without patience.
func (s *queryProcesses) run(ctx, stop context.Context, q childQuery, sink rowSink, done func()) (queryEnd, error) {
	p, err := s.get(q.path)
	if err != nil {
		done()
		return queryEnd{}, err
	}
	q.evict = s.opens(p, q.path)
	end, finished, err := p.run(ctx, q, sink)
	if finished {
		s.put(p)
		done()
		return end, err
	}
	s.ended.Add(1)
	go func() {
		defer s.ended.Done()
		if p.settle(stop) {
			s.put(p)
			done()
			return
		}
		s.killed.Add(1)
		done()
		s.warm()
	}()
	return end, err
}

// forget closes a ledger in every process, and returns when that is done.
func (s *queryProcesses) forget(path string) {
	s.mu.Lock()
	var with []*queryProcess
	for p := range s.alive {
		if _, open := p.ledgers[path]; open {
			delete(p.ledgers, path)
			with = append(with, p)
		}
	}
	s.mu.Unlock()
	for _, p := range with {
		p.forget(path)
	}
}

func (s *queryProcesses) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.alive)
}

func (s *queryProcesses) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// close kills every process and waits for its end.
func (s *queryProcesses) close() {
	s.mu.Lock()
	s.closed = true
	s.idle = nil
	var all []*queryProcess
	for p := range s.alive {
		all = append(all, p)
	}
	s.mu.Unlock()
	for _, p := range all {
		p.kill()
	}
	s.ended.Wait()
}

// maxProcessLedgers is the number of ledgers that one process keeps open.
const maxProcessLedgers = 16

// settleTime is how long a query that was interrupted may take to end, before its process is killed.
const settleTime = 250 * time.Millisecond
