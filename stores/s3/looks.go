package s3

import (
	"context"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

const (
	maxLooks = 1000 // renewal logs whose looks are remembered
	maxMarks = 64   // of one log
)

// logView is one version of a renewal log, as an answer showed it. A nil log: there is none.
type logView struct {
	log *renewalLog
	// known: it was seen closed before, and not looked at again.
	known    bool
	etag     string
	received time.Time
	age      time.Duration
	aged     bool
}

func (v logView) version() uint64 {
	if v.log == nil {
		return 0
	}
	return v.log.Version
}

// looks remembers when which version of which renewal log was shown: whatever stands in a version was sent before any
// answer that showed that version or a later one.
type looks struct {
	mu     sync.Mutex
	byName map[string]*look
}

type look struct {
	marks  []mark      // rising, in both
	gone   time.Time   // when an answer first showed that it was deleted
	closed *renewalLog // the last version of a closed log, without its trail: it says nothing else any more
}

type mark struct {
	version  uint64
	received time.Time
}

// note takes a view in.
func (l *looks) note(name string, v logView) {
	if v.log == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.of(name)
	if v.log.Closed {
		closed := *v.log
		closed.Trail = nil
		k.closed = &closed
	}
	k.gone = time.Time{}
	n := len(k.marks)
	switch {
	case n > 0 && k.marks[n-1].version >= v.log.Version:
	case n == maxMarks:
		k.marks = append(k.marks[1:], mark{v.log.Version, v.received})
	default:
		k.marks = append(k.marks, mark{v.log.Version, v.received})
	}
}

// of returns what is known of a log. It is called with the lock held.
func (l *looks) of(name string) *look {
	k := l.byName[name]
	if k == nil {
		if len(l.byName) >= maxLooks {
			for other := range l.byName { // any one: it will be looked at anew
				delete(l.byName, other)
				break
			}
		}
		k = &look{}
		l.byName[name] = k
	}
	return k
}

// seen returns when a renewal that came with a version was first known to have been sent.
func (l *looks) seen(name string, version uint64) (time.Time, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := l.byName[name]; k != nil {
		for _, m := range k.marks {
			if m.version >= version {
				return m.received, true
			}
		}
	}
	return time.Time{}, false
}

// goneSince notes that an answer showed that a log was deleted, and returns when one first did.
func (l *looks) goneSince(name string, received time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.of(name)
	if k.gone.IsZero() || received.Before(k.gone) {
		*k = look{gone: received} // if somebody puts a copy of it back, its versions begin anew
	}
	return k.gone
}

// since says whether a log was seen, or written, in a later version than a view shows.
func (l *looks) since(name string, v logView) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.byName[name]
	return k != nil && len(k.marks) > 0 && k.marks[len(k.marks)-1].version > v.version()
}

// closed returns the last version of a log that is known to be closed.
func (l *looks) closed(name string) (*renewalLog, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := l.byName[name]; k != nil && k.closed != nil {
		return k.closed, true
	}
	return nil, false
}

// loadLogVia is loadLog, by a read of its own.
func (l *Leases) loadLogVia(ctx context.Context, via requester, name string) (logView, error) {
	if log, ok := l.looks.closed(name); ok {
		return logView{log: log, known: true, received: l.cfg.Now()}, nil
	}
	return l.fetchLog(ctx, via, name)
}

// fetchLog reads the newest version, of a closed log too.
func (l *Leases) fetchLog(ctx context.Context, via requester, name string) (logView, error) {
	data, out, err := via.fetch(ctx, kindRenewals, name, maxRecordBytes)
	v := logView{received: l.cfg.Now()}
	switch outcomeOf(err) {
	case done:
	case absent:
		l.looks.goneSince(name, v.received)
		return v, nil
	default:
		return v, l.failure(ctx, err, "", "the renewal log cannot be read")
	}
	if v.log, err = decodeLog(name, data); err != nil {
		return v, err
	}
	v.etag = aws.ToString(out.ETag)
	v.age, v.aged = ageOf(out)
	l.looks.note(name, v)
	return v, nil
}
