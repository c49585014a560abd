package cli

import (
	"bytes"
	"io"
	"sync/atomic"
	"time"
)

const (
	// outletLines and outletBytes bound what waits to be written.
	outletLines = 4096
	outletBytes = 8 << 20
	// flushTimeout bounds how long the end of a process waits for whoever reads its output.
	flushTimeout = 2 * time.Second
)

// outlet writes to a file on a goroutine of its own. Whoever writes to it never waits, and never fails: a pipe that
// nobody reads, a disk that is full or a terminal that is gone cost what was written, and nothing else. It is safe for
// concurrent use.
type outlet struct {
	to      io.Writer
	queue   chan output
	pending atomic.Int64 // bytes in the queue
	lost    atomic.Int64 // writes that did not fit into the queue, or failed, and that nobody was told of
	notice  func(lost int64) []byte
}

// output is one write, or the question whether all before it were done.
type output struct {
	text []byte
	done chan<- struct{}
}

// newOutlet returns an outlet to a file. Where writes were lost, what notice returns takes their place; nil: nothing
// does. Its goroutine ends with the process.
func newOutlet(to io.Writer, notice func(lost int64) []byte) *outlet {
	o := &outlet{to: to, queue: make(chan output, outletLines), notice: notice}
	go o.run()
	return o
}

// Write implements io.Writer.
func (o *outlet) Write(p []byte) (int, error) {
	n := int64(len(p))
	if o.pending.Add(n) <= outletBytes {
		select {
		case o.queue <- output{text: bytes.Clone(p)}:
			return len(p), nil
		default:
		}
	}
	o.pending.Add(-n)
	o.lost.Add(1)
	return len(p), nil
}

func (o *outlet) run() {
	for next := range o.queue {
		if next.done != nil {
			close(next.done)
			continue
		}
		o.pending.Add(-int64(len(next.text)))
		if n := o.lost.Swap(0); n > 0 && o.notice != nil {
			if _, err := o.to.Write(o.notice(n)); err != nil {
				o.lost.Add(n)
			}
		}
		if _, err := o.to.Write(next.text); err != nil {
			o.lost.Add(1)
		}
	}
}

// flush waits until everything that was written before is in the file, for at most timeout.
func (o *outlet) flush(timeout time.Duration) {
	late := time.NewTimer(timeout)
	defer late.Stop()
	done := make(chan struct{})
	select {
	case o.queue <- output{done: done}:
	case <-late.C:
		return
	}
	select {
	case <-done:
	case <-late.C:
	}
}
