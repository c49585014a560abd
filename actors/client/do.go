package client

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"github.com/leasehold/leasehold/messages"
)

const (
	// maxHops is how often in a row a request follows a reply that names another owner without a pause: one hop is
	// the rule, more means that the members do not agree yet.
	maxHops = 4
	// maxAvoid bounds Request.Avoid.
	maxAvoid = 8
)

// errClosed is why requests end with Client.Close.
var errClosed = &messages.Error{Code: messages.CodeClosed, Message: "the client is closed"}

// Do carries a request to the tenant's owner and returns its reply; see the package comment for what is tried
// again. The reply is never nil: it is a success, or has an Error. Do fills in Version, ID and TimeoutMS, adds to Avoid,
// and leaves req as it is. A success that is older than req.Seen is never returned. A ctx without a
// deadline gets Config.RequestTimeout. Safe for concurrent use, also with one req.
func (c *Client) Do(ctx context.Context, req *messages.Request) *messages.Reply {
	if req == nil {
		return messages.Refuse(invalid("there is no request"))
	}
	r := run{client: c, req: *req}
	r.req.Version = messages.WireVersion
	if err := r.req.Validate(); err != nil {
		return messages.Refuse(err)
	}
	if c.life.Err() != nil {
		closed := *errClosed
		closed.Key = r.req.Key.String()
		return messages.Refuse(&closed)
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.cfg.RequestTimeout)
		defer cancel()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.life, func() { cancel(errClosed) })()
	r.repeatable, r.patience = r.req.Repeatable(), c.cfg.AttemptTimeout
	if r.repeatable && r.req.ID == "" {
		r.req.ID = rand.Text()
	}
	c.budget.requested()
	return r.loop(ctx)
}

// run is one request on its way.
type run struct {
	client     *Client
	req        messages.Request
	repeatable bool

	target   string        // where it goes next; "": to any member
	patience time.Duration // of the next attempt of a repeatable request
	pace     pace
	hedge    *hedge               // of the attempt that is under way
	hops     int                  // followed without a pause
	failures int                  // attempts that got no answer
	named    string               // the owner that a member has named last
	absent   map[string]time.Time // owners to whom there is no way, and since when
	lease    messages.Lease       // of the owner that the last CodeHeld named
	refusal  error                // the last one
	doubt    error                // the last failure after which the work may stand, or may yet be done
}

func (r *run) loop(ctx context.Context) *messages.Reply {
	r.target = r.client.owners.get(r.req.Key)
	for ctx.Err() == nil {
		reply, err := r.attempt(ctx)
		if err == nil {
			err = implausible(r.target, &r.req, reply)
		}
		var final *messages.Reply
		var wait time.Duration
		asked := r.target
		switch {
		case err != nil:
			final, wait = r.failed(ctx, err)
		case asked == "":
			final, wait = r.located(reply)
		default:
			final, wait = r.answered(reply)
		}
		final, wait = r.hedged(final, wait)
		if final != nil {
			return final
		}
		r.client.cfg.Log.Debug("request is sent again", "key", r.req.Key.String(), "action", r.req.Action,
			"asked", asked, "refused", messages.CodeOf(r.refusal), "doubt", messages.CodeOf(r.doubt), "next", r.target, "wait", wait)
		if wait > 0 {
			r.hops = 0
			sleep(ctx, wait)
		}
	}
	return r.gaveUp(ctx)
}

// attempt sends the request once, or asks any member who should be sent it. If the answer takes long, a hedge may find
// another one; then r.target is where that came from.
func (r *run) attempt(ctx context.Context) (*messages.Reply, error) {
	r.trust(r.target) // whom we ask again, we do not avoid
	limit := time.Duration(0)
	req := r.req // a transport may keep what it was given
	switch {
	case r.target == "":
		// The answer needs a look at the lease store at most.
		limit = r.client.cfg.LocateTimeout
		req = locating(&r.req)
	case r.repeatable:
		limit = r.patience
	}
	attempt, overtake := context.WithCancelCause(ctx)
	defer overtake(nil)
	if limit > 0 {
		var cancel context.CancelFunc
		attempt, cancel = context.WithTimeout(attempt, limit)
		defer cancel()
	}
	deadline, _ := attempt.Deadline()
	begun := r.client.cfg.Now()
	r.hedge = r.newHedge(ctx, deadline, overtake)
	reply, err := r.client.deliver(attempt, r.target, &req)
	if err == nil && r.target != "" {
		now := r.client.cfg.Now()
		r.client.budget.answered(r.target, now, now.Sub(begun))
	}
	if won := r.hedge.answer(); won != nil {
		r.target = won.to
		return won.reply, nil
	}
	return reply, err
}

// hedged ends the hedge of an attempt. What it has sent, and what was not answered, leaves a doubt: a refusal of the first
// attempt is not the whole truth then.
func (r *run) hedged(final *messages.Reply, wait time.Duration) (*messages.Reply, time.Duration) {
	refused := final != nil && final.Error != nil
	if refused {
		r.hedge.settle()
	}
	doubt := r.hedge.end()
	if won := r.hedge.answer(); won != nil && won.to != "" && (refused || final == nil) {
		r.target = won.to // it came in the same moment
		return r.answered(won.reply)
	}
	if doubt == nil {
		return final, wait
	}
	r.doubt = doubt
	if refused && r.changes() {
		return nil, r.pace.backoff()
	}
	return final, wait
}

// locating is the question who should be sent a request. It does not say what is to be done.
func locating(req *messages.Request) messages.Request {
	return messages.Request{Version: req.Version, Action: messages.ActionLocate, Key: req.Key, Avoid: req.Avoid}
}

// deliver sends one message, with the time that is left.
func (c *Client) deliver(ctx context.Context, target string, req *messages.Request) (*messages.Reply, error) {
	deadline, _ := ctx.Deadline()
	// What nobody waits for any more is not begun. 0 would mean "no limit".
	req.TimeoutMS = max(1, deadline.Sub(c.cfg.Now()).Milliseconds())
	return c.transport.Send(ctx, target, req)
}

// failed handles an attempt without an answer that counts.
func (r *run) failed(ctx context.Context, err error) (final *messages.Reply, wait time.Duration) {
	first := r.failures == 0 && r.target != ""
	r.failures++
	if r.target == "" || errors.Is(err, ErrNotDelivered) {
		r.refusal = &messages.Error{Code: messages.CodeUnavailable, Key: r.req.Key.String(), Message: "no member takes the request", Err: err}
	} else {
		r.doubt = typed(err)
		if ctx.Err() != nil {
			return r.gaveUp(ctx), 0
		}
		if !r.repeatable {
			return messages.Refuse(messages.Unknown(r.req.Key, 0, r.doubt)), 0
		}
		if r.patience < time.Hour {
			r.patience *= 2
		}
	}
	if r.gone(err) {
		r.avoid(r.target)
	}
	r.forget()
	if first {
		return nil, 0
	}
	return nil, r.pace.backoff()
}

// gone reports whether an owner is to be avoided after a failure: at once if it has the request and does not answer. Where
// there is no way to it, it may only have lost its connection, as all do when NATS is started anew. It is the one that
// can go on without a loss, so it is given LocateTimeout to come back, as long as others can be reached.
func (r *run) gone(err error) bool {
	noWay := errors.Is(err, ErrNotDelivered) || messages.CodeOf(typed(err)) == messages.CodeUnavailable
	switch {
	case r.target == "":
		if noWay {
			clear(r.absent) // nobody can be reached: that says nothing about an owner
		}
		return false
	case !noWay:
		return true
	}
	now := r.client.cfg.Now()
	since, ok := r.absent[r.target]
	if !ok {
		if r.absent == nil {
			r.absent = make(map[string]time.Time)
		}
		r.absent[r.target], since = now, now
	}
	return now.Sub(since) >= r.client.cfg.LocateTimeout
}

// typed gives a transport's own error a code: what is not typed yet is a connection that failed.
func typed(err error) error {
	var e *messages.Error
	if errors.As(err, &e) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return err
	}
	return &messages.Error{Code: messages.CodeUnavailable, Message: "the connection failed before the answer", Err: err}
}

// gaveUp is the reply to a request whose context has ended.
func (r *run) gaveUp(ctx context.Context) *messages.Reply {
	err := ctx.Err()
	if context.Cause(ctx) == error(errClosed) {
		err = errClosed
	}
	why := *messages.AsError(err)
	why.Key = r.req.Key.String()
	if r.doubt != nil && r.changes() {
		why.Err = errors.Join(why.Err, r.doubt)
		return messages.Refuse(messages.Unknown(r.req.Key, 0, &why))
	}
	last := r.refusal
	if last == nil {
		last = r.doubt // of a read: nothing was done
	}
	if e := messages.AsError(last); e != nil {
		why.Message += "; nothing was done"
		why.Cause, why.Reason, why.Owner, why.Epoch, why.Lease, why.RetryAfter = e.Code, e.Reason, e.Owner, e.Epoch, e.Lease, e.RetryAfter
		why.Err = errors.Join(why.Err, last)
	}
	return messages.Refuse(&why)
}

// changes reports whether the request does anything that could stand.
func (r *run) changes() bool {
	switch r.req.Action {
	case messages.ActionQuery, messages.ActionEvents, messages.ActionLocate:
		return false
	}
	return true
}

// forget forgets the owner that was asked. The next attempt goes to the one that another caller has found
// since, if there is one, else to any member.
func (r *run) forget() {
	asked := r.target
	r.client.owners.forget(r.req.Key, asked)
	r.target = r.client.owners.get(r.req.Key)
	if slices.Contains(r.req.Avoid, r.target) {
		r.target = ""
	}
}

// follow goes where a reply points, at once unless that was done too often in a row.
func (r *run) follow(owner string) (wait time.Duration) {
	r.client.owners.put(r.req.Key, owner)
	r.target = owner
	if r.hops++; r.hops > maxHops {
		return r.pace.backoff()
	}
	return 0
}

// avoid and trust keep Request.Avoid. They make a new slice: a transport may have kept the old one.
func (r *run) avoid(owner string) {
	if owner == "" {
		return
	}
	r.trust(owner)
	r.req.Avoid = append(slices.Clone(r.req.Avoid), owner)
	if over := len(r.req.Avoid) - maxAvoid; over > 0 {
		r.req.Avoid = r.req.Avoid[over:]
	}
}

func (r *run) trust(owner string) {
	if slices.Contains(r.req.Avoid, owner) {
		r.req.Avoid = slices.DeleteFunc(slices.Clone(r.req.Avoid), func(o string) bool { return o == owner })
	}
}
