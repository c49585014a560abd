package cluster

import "sync"

// work counts the goroutines of requests and moves. Subscriptions may still call back while a member is being
// closed: from then on nothing is started.
type work struct {
	mu     sync.Mutex
	closed bool
	group  sync.WaitGroup
}

// start runs f on a goroutine of its own, and reports false if the member is closed.
func (w *work) start(f func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.group.Go(f)
	return true
}

// wait starts nothing any more, and waits for what runs.
func (w *work) wait() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.group.Wait()
}
