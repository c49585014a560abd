package ledgeractor

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// fairQueue shares a bounded number of places out among tenants: the next one goes to the tenant that has used the
// least of late. A query that has run for longer than a share is ended when a tenant that has used less waits for a
// place. So nobody waits much longer than one share, however many endless queries there are. It is the one thing that
// the ledgers of a node have in common, and so guarded by a mutex.
type fairQueue struct {
	max   int
	share time.Duration
	now   func() time.Time

	mu      sync.Mutex
	tenants map[messages.Key]*queueTenant
	pruneAt int // len(tenants) at which those are forgotten that are as good as new
	waiting map[*queueTenant]struct{}
	running map[*place]struct{}
	timer   *time.Timer // the next look for a place to take away; nil: none is due
}

type queueTenant struct {
	key     messages.Key
	limit   int // places that it may have at a time
	running int
	waiting []*place // in the order of arrival
	used    float64  // seconds in places that it had, halved every usageHalf
	usedAt  time.Time
}

// place is where a query runs, or waits for its turn.
type place struct {
	tenant *queueTenant
	cancel context.CancelCauseFunc // ends the query
	given  chan struct{}           // closed when it may run
	begun  time.Time
	ended  bool // it was taken away; the query ends
}

const (
	// usageHalf is the time after which half of what a tenant has used is forgotten.
	usageHalf = 10 * time.Second
	// forgotten is the use, in seconds, below which a tenant is as good as new.
	forgotten = 0.001
)

func newFairQueue(max int, share time.Duration, now func() time.Time) *fairQueue {
	return &fairQueue{max: max, share: share, now: now,
		tenants: make(map[messages.Key]*queueTenant), waiting: make(map[*queueTenant]struct{}), running: make(map[*place]struct{})}
}

// acquire waits for a place; release must follow. The context that it returns is done when the place is taken away too:
// its cause is a *messages.Error then. limit bounds the places of the tenant, maxWaiting its queries that wait.
func (q *fairQueue) acquire(ctx context.Context, key messages.Key, limit, maxWaiting int) (context.Context, *place, error) {
	p := &place{given: make(chan struct{})}
	ctx, p.cancel = context.WithCancelCause(ctx)
	q.mu.Lock()
	t := q.tenant(key)
	t.limit, p.tenant = limit, t
	q.wait(t, append(t.waiting, p))
	q.dispatch()
	if n := len(t.waiting); n > maxWaiting { // the last one is p
		q.wait(t, t.waiting[:n-1])
		q.mu.Unlock()
		p.cancel(nil)
		return nil, nil, &messages.Error{Code: messages.CodeOverloaded, Key: key.String(), Message: "too many reads wait for this ledger", RetryAfter: overloadedRetry}
	}
	q.mu.Unlock()
	select {
	case <-p.given:
		return ctx, p, nil
	case <-ctx.Done():
	}
	err := causeOf(ctx)
	q.release(p)
	return nil, nil, err
}

// release gives a place back, or gives up waiting for it.
func (q *fairQueue) release(p *place) {
	p.cancel(nil)
	q.mu.Lock()
	defer q.mu.Unlock()
	t, now := p.tenant, q.now()
	if _, ran := q.running[p]; ran {
		delete(q.running, p)
		t.running--
		t.charge(now, now.Sub(p.begun))
	} else if i := slices.Index(t.waiting, p); i >= 0 {
		q.wait(t, slices.Delete(t.waiting, i, i+1))
	}
	q.dispatch()
}

// wait sets which queries of a tenant wait.
func (q *fairQueue) wait(t *queueTenant, list []*place) {
	if t.waiting = list; len(list) > 0 {
		q.waiting[t] = struct{}{}
	} else {
		delete(q.waiting, t)
	}
}

func (q *fairQueue) tenant(key messages.Key) *queueTenant {
	t := q.tenants[key]
	if t == nil {
		if now := q.now(); len(q.tenants) >= q.pruneAt {
			for k, other := range q.tenants {
				if other.running == 0 && len(other.waiting) == 0 && other.usage(now) < forgotten {
					delete(q.tenants, k)
				}
			}
			q.pruneAt = max(64, 2*len(q.tenants))
		}
		t = &queueTenant{key: key}
		q.tenants[key] = t
	}
	return t
}

// usage is what a tenant has used of late, in seconds, without the queries that run.
func (t *queueTenant) usage(now time.Time) float64 {
	if t.used == 0 {
		return 0
	}
	return t.used * math.Exp2(-float64(now.Sub(t.usedAt))/float64(usageHalf))
}

func (t *queueTenant) charge(now time.Time, d time.Duration) {
	t.used, t.usedAt = t.usage(now)+d.Seconds(), now
}

// load is what a tenant has used of late, with the queries that run.
func (q *fairQueue) load(t *queueTenant, now time.Time) float64 {
	sum := t.usage(now)
	for p := range q.running {
		if p.tenant == t {
			sum += now.Sub(p.begun).Seconds()
		}
	}
	return sum
}

// next is the tenant whose turn it is, or nil if none waits that may have one more place.
func (q *fairQueue) next(now time.Time) (next *queueTenant) {
	least := math.Inf(1)
	for t := range q.waiting {
		if t.running >= t.limit {
			continue
		}
		if load := q.load(t, now); load < least || load == least && t.running < next.running {
			next, least = t, load
		}
	}
	return next
}

// dispatch gives away what is free, and sees to it that those who wait do not wait for ever.
func (q *fairQueue) dispatch() {
	now := q.now()
	for len(q.running) < q.max {
		t := q.next(now)
		if t == nil {
			break
		}
		p := t.waiting[0]
		q.wait(t, t.waiting[1:])
		t.running++
		p.begun = now
		q.running[p] = struct{}{}
		close(p.given)
	}
	q.rebalance(now)
}

// rebalance takes a place away from the tenant that has used the most, if one that has used less waits, and sets
// the time of the next look.
func (q *fairQueue) rebalance(now time.Time) {
	if q.timer != nil {
		q.timer.Stop()
		q.timer = nil
	}
	t := q.next(now)
	if t == nil || len(q.running) < q.max {
		return
	}
	mine := q.load(t, now)
	var victim *place
	most, due := mine, time.Duration(math.MaxInt64)
	for p := range q.running {
		if p.ended { // one that waits gets this place: enough for now, there is another look when it is free
			return
		}
		if p.tenant == t {
			continue
		}
		if left := q.share - now.Sub(p.begun); left > 0 {
			due = min(due, left)
		} else if load := q.load(p.tenant, now); load > most {
			victim, most = p, load
		}
	}
	switch {
	case victim != nil:
		victim.ended = true
		victim.cancel(&messages.Error{Code: messages.CodeOverloaded, Key: victim.tenant.key.String(), RetryAfter: q.share,
			Message: "the query ran for longer than its share, and other tenants wait"})
	case due < math.MaxInt64:
		q.timer = time.AfterFunc(due, q.look)
	default:
		q.timer = time.AfterFunc(q.share, q.look) // a load falls behind another's while both run
	}
}

func (q *fairQueue) look() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.rebalance(q.now())
}

// counts returns how many queries run, and how many wait.
func (q *fairQueue) counts() (running, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for t := range q.waiting {
		waiting += len(t.waiting)
	}
	return len(q.running), waiting
}
