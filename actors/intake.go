package actors

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// Intake bounds what the requests on a node, and the answers to them, hold in memory as text, and how many processors
// they take while they are decoded, whichever way they came in. It is safe for concurrent use.
type Intake struct {
	most     int64
	held     atomic.Int64
	decoding chan struct{} // a slot for each large document that is being decoded
}

const (
	// largeDocument is the size in bytes from which a document waits for its turn to be decoded: that takes milliseconds.
	largeDocument = 64 << 10
	// overloadedFor is when whoever was refused may try again.
	overloadedFor = 100 * time.Millisecond
)

func newIntake(most int64) *Intake {
	return &Intake{most: most, decoding: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))}
}

// Intake returns the bounds of what may come in on this node.
func (n *Node) Intake() *Intake { return n.intake }

// Take takes room for so many bytes, until they are given back. It waits for nothing: CodeOverloaded says that there is
// no room now (Config.MaxRequestBytes).
func (i *Intake) Take(bytes int64) error {
	if i.held.Add(bytes) > i.most {
		i.held.Add(-bytes)
		return &messages.Error{Code: messages.CodeOverloaded, RetryAfter: overloadedFor, Message: "the requests on this node hold as much memory as they may"}
	}
	return nil
}

// Give gives bytes back.
func (i *Intake) Give(bytes int64) { i.held.Add(-bytes) }

// Decode has a document of so many bytes decoded. Large ones take turns, so that they leave processors to everything else.
// If ctx ends first, decode is not called, and the error is CodeDeadlineExceeded or CodeCanceled.
func (i *Intake) Decode(ctx context.Context, bytes int, decode func() error) error {
	if bytes < largeDocument {
		return decode()
	}
	select {
	case i.decoding <- struct{}{}:
		defer func() { <-i.decoding }()
		return decode()
	case <-ctx.Done():
		return messages.AsError(ctx.Err())
	}
}
