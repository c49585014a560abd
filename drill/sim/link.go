package sim

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// link is the way from one node's process to one store. A request that was sent is on its own: it
// arrives sooner, later or never, whatever becomes of its caller.
type link struct {
	w       *world
	process *process
	name    string // "n1#2 lease"

	mu      sync.Mutex
	streams map[string]*rand.Rand
	down    bool      // requests are lost
	gray    bool      // requests arrive; answers are late, or lost
	healed  bool      // nothing goes wrong any more
	doubt   bool      // an acquire was not answered
	dark    time.Time // requests are lost until then
	quick   time.Time // nothing goes wrong until then
	slow    time.Time // requests take seconds until then
	trouble []span    // in which the sender of a request waited for an answer that was late, or lost
}

func newLink(w *world, p *process, name string) *link {
	return &link{w: w, process: p, name: name, streams: map[string]*rand.Rand{}}
}

// fate is what happens to one request.
type fate struct {
	lost, answerLost bool
	before, after    time.Duration // its effect; and from there to its answer
	survives         bool          // it arrives although its sender was killed meanwhile
	handled          time.Duration // how long after a stopped process went on it notices the answer
}

func (l *link) fate(op string) fate {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.streams[op]
	if r == nil {
		r = stream(l.w.Seed, l.name+" "+op)
		l.streams[op] = r
	}
	// Every chance is drawn each time, so that one fault does not shift the others.
	p := l.w.Profile
	lost, slow, which, how, survives := r.Float64(), r.Float64(), r.Float64(), r.Float64(), r.Float64() < 0.5
	f := fate{survives: survives, handled: time.Duration(how * float64(300*time.Millisecond))}
	deletes := op == "Delete" || op == "DeletePrefix"
	switch {
	case l.healed, time.Now().Before(l.quick):
		return f
	case time.Now().Before(l.slow):
		f.before = time.Second + time.Duration(how*float64(durableTimeout/2))
		return f
	case op == "Acquire" && slow < p.LoseAcquire:
		f.answerLost, l.doubt = true, true
		return f
	case op == "Read" && l.doubt:
		l.doubt, l.dark = false, time.Now().Add(between(r, ttl-storeTimeout, 2*ttl))
		return f
	case op == "Renew" && !time.Now().Before(l.dark) && slow < p.LastAnswer:
		f.after = storeTimeout - time.Duration(how*float64(storeTimeout-margin)/2) - time.Millisecond
		l.dark = time.Now().Add(between(r, ttl, 2*ttl))
		return f
	case l.down, time.Now().Before(l.dark):
		f.lost = true
		return f
	case deletes && lost < p.DeleteFail, lost < p.Lost/2:
		f.lost = true
		return f
	case lost < p.Lost:
		f.answerLost = true
	}
	delay := time.Duration(how * how * float64(p.SlowFor))
	switch {
	case deletes && slow < p.DeleteSlow:
		f.before = time.Duration(how * float64(maxLanding))
	case deletes && p.DeleteLong > 0:
		f.before = p.DeleteLong
	case slow < p.Slow && which < 0.6:
		f.before = delay
	case slow < p.Slow:
		f.after = delay
	}
	if l.gray {
		switch {
		case which < 0.3:
			f.lost = true
		case which < 0.8:
			f.after = time.Duration(how * float64(2*storeTimeout))
		default:
			f.before = time.Duration(how * float64(2*storeTimeout))
		}
	}
	return f
}

// call carries one request to a store and its answer back.
func call[T any](ctx context.Context, l *link, op, object string, effect func() (T, error)) (T, error) {
	var zero T
	l.process.wait()
	select {
	case <-l.process.dead:
		return zero, noAnswer("the process was killed")
	default:
	}
	f := l.fate(op)
	if !f.lost && !f.answerLost && f.before == 0 && f.after == 0 {
		out, err := effect()
		return out, err
	}
	l.troubled(f)
	l.w.logf("%s %s %s: lost %v, answer lost %v, takes effect after %v, answered after another %v", l.name, op, short(object), f.lost, f.answerLost, f.before, f.after)
	type answer struct {
		out T
		err error
	}
	answers := make(chan answer, 1)
	l.w.requests.Go(func() {
		if f.lost {
			return
		}
		if f.before > 0 {
			timer := time.NewTimer(f.before)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-l.process.dead:
				if !f.survives {
					return
				}
				<-timer.C
			}
		}
		out, err := effect()
		if f.answerLost {
			return
		}
		select {
		case <-time.After(f.after):
			answers <- answer{out, err}
		case <-l.process.dead:
		}
	})
	// A stopped process sees neither answers nor deadlines until it goes on, and then in any order.
	defer func() {
		if l.process.wait() {
			time.Sleep(f.handled)
		}
	}()
	select {
	case a := <-answers:
		return a.out, a.err
	case <-ctx.Done():
		return zero, noAnswer("no answer in time")
	case <-l.process.dead:
		return zero, noAnswer("the process was killed")
	}
}

// troubled writes down how long the sender of a request will wait.
func (l *link) troubled(f fate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	wait := min(f.before+f.after, storeTimeout)
	if f.lost || f.answerLost {
		wait = storeTimeout
	}
	now := time.Now()
	l.trouble = append(l.trouble, span{now, now.Add(wait)})
}

func noAnswer(why string) error {
	return &messages.Error{Code: messages.CodeUnavailable, Message: why}
}

func (l *link) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}
