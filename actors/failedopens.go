package actors

import (
	"maps"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// failedOpens remembers the opens that failed, so that those which fail again for the same reason back off, each tenant by itself:
// an attempt costs an epoch, often a download, and leaves objects. Meanwhile callers are told the reason, and when to ask
// again. An open that succeeds ends it. It belongs to the supervisor.
type failedOpens map[messages.Key]failedOpen

type failedOpen struct {
	err   *messages.Error
	count int   // in a row, for the same reason
	until int64 // by Node.sinceStart
}

const (
	// What does not heal by itself is tried again after a second, and at least every minute: an operator may have mended it.
	lastingPause, maxLastingPause = time.Second, time.Minute
	// What may pass by itself, such as a store that does not answer, is tried again at once the first time.
	passingPause, maxPassingPause = 100 * time.Millisecond, 5 * time.Second
	// maxFailedOpens bounds the memory.
	maxFailedOpens = 10_000
)

// backsOff reports whether an open that failed with this code counts. Those that another owner, the end of the node or the
// caller's own has stopped do not.
func backsOff(code messages.Code) bool {
	switch code {
	case messages.CodeHeld, messages.CodeLost, messages.CodeFenced, messages.CodeNotOwner, messages.CodeDraining, messages.CodeClosed,
		messages.CodeCanceled, messages.CodeDeadlineExceeded:
		return false
	}
	return true
}

// pause returns how long the next open waits.
func (f failedOpen) pause() time.Duration {
	switch f.err.Code {
	case messages.CodeUnavailable, messages.CodeStorage, messages.CodeOverloaded:
		if f.count == 1 {
			return 0
		}
		return min(passingPause<<min(f.count-2, 10), maxPassingPause)
	}
	return min(lastingPause<<min(f.count-1, 10), maxLastingPause)
}

// of returns why the last open of a tenant failed, and how long the next one has to wait.
func (m failedOpens) of(key messages.Key, now int64) (*messages.Error, time.Duration) {
	f := m[key]
	return f.err, time.Duration(f.until - now)
}

// add notes a failure.
func (m failedOpens) add(key messages.Key, err *messages.Error, now int64) {
	f, known := m[key]
	if !known || f.err.Code != err.Code || f.err.Object != err.Object {
		f.count = 0
	}
	if !known && len(m) >= maxFailedOpens {
		maps.DeleteFunc(m, func(_ messages.Key, f failedOpen) bool { return f.until < now })
		for other := range m { // any: it is tried again earlier than it would have been
			if len(m) < maxFailedOpens {
				break
			}
			delete(m, other)
		}
	}
	f.err, f.count = err, f.count+1
	f.until = now + int64(f.pause())
	m[key] = f
}

// stillFails keeps the alarm of a failure standing that is told to another caller.
func (n *Node) stillFails(err *messages.Error) {
	if contradicts(err.Code) {
		n.raise(err)
	}
}
