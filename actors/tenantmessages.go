package actors

import (
	"context"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// Messages to a tenant from callers. Every reply channel is buffered; each message is answered once.
type (
	await       struct{ find }
	snapshotNow struct {
		order *order
		reply chan snapshotDone
	}
	handoff struct {
		ctx    context.Context
		reason string
		next   string // the owner that is to take the tenant over; "": nobody in particular
		order  *order
		reply  chan error
	}
	abandon struct {
		order *order
		reply chan error
	}
	forget struct {
		ctx   context.Context
		order *order
		reply chan error
	}
	statusOf struct{ reply chan Status }
	abort    struct{}
)

type snapshotDone struct {
	manifest messages.Manifest
	err      error
}

// Messages of a tenant to itself. Those that belong to one attempt carry its generation, so that
// what an earlier attempt left behind is recognized.
type (
	renewTick    struct{ gen int }
	snapshotTick struct{ gen int }
	fromLease    struct {
		gen int
		msg any
	}
	fromSnapshots struct {
		gen int
		msg any
	}
	fromLedger struct {
		gen int
		msg any
	}
	acquireAgain struct{ gen int }
	lineageAgain struct{ gen int }
	openTimeout  struct{}
	looked       struct {
		gen int
		err *messages.Error // what is still in the way
	}
	recordRead struct {
		gen      int
		lease    messages.Lease
		err      error
		contrary *messages.Error
	}
	noted struct {
		gen int
		err error
	}
	// What comes of a drain names it: it may come when that one is over, and the next one is under way.
	drained struct {
		drain *drain
		err   error
	}
	undrained struct {
		drain *drain
		err   error
	}
	flushAgain   struct{ drain *drain }
	drainTimeout struct {
		drain *drain
		err   error
	}
	filesGone struct{ err error }
	markAgain struct{}
	// successor is what the lease store says while the last snapshot is awaited.
	successor struct{ taken bool }
)

// take is a snapshot that was asked for; reply is nil for one of our own.
type take struct {
	order *order
	reply chan snapshotDone
	begun time.Time
	last  bool
}
