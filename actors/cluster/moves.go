package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/leasehold/leasehold/messages"
)

// A move takes three messages from the owner of a tenant to the next one. "expect" asks whether it takes the tenant:
// from then on it lets requests for it wait. Then the owner hands off: finishes what is in flight, saves it, and
// releases the lease. "take" says so: the next owner acquires at once. "keep" says that the handoff failed. None
// of them decides who owns the tenant; a lost one costs time.
const (
	moveExpect = "expect"
	moveTake   = "take"
	moveKeep   = "keep"
)

type move struct {
	Kind string       `json:"kind"`
	Key  messages.Key `json:"key"`
	From string       `json:"from"`
	// MostMS is how long the move may take, in ms.
	MostMS int64 `json:"most_ms"`
	// Needs is the version of its application that the next owner must have.
	Needs int `json:"needs,omitempty"`
}

type moveReply struct {
	Error *messages.Error `json:"error,omitempty"`
}

// maxMoveBytes bounds a message of a move.
const maxMoveBytes = 4096

// heardMove answers another member that moves a tenant here.
func (m *Member) heardMove(msg *natsgo.Msg) {
	var in move
	answer := moveReply{}
	if len(msg.Data) > maxMoveBytes || json.Unmarshal(msg.Data, &in) != nil || in.Key.Validate() != nil || messages.ValidateOwner(in.From) != nil {
		answer.Error = &messages.Error{Code: messages.CodeInvalidArgument, Message: "not a message of a move"}
	} else {
		switch in.Kind {
		case moveExpect:
			if err := m.takes(in.Key, in.Needs); err != nil {
				answer.Error = messages.AsError(err)
				break
			}
			most := min(time.Duration(in.MostMS)*time.Millisecond, m.cfg.MoveTimeout)
			m.departures.forget(in.Key)
			m.arrivals.expect(in.Key, in.From, max(most, time.Millisecond))
		case moveTake:
			m.work.start(func() { m.take(in) })
		case moveKeep:
			m.arrivals.ended(in.Key, in.From)
		default:
			answer.Error = &messages.Error{Code: messages.CodeInvalidArgument, Key: in.Key.String(), Message: "not a message of a move that this member knows"}
		}
	}
	if !answerable(msg) {
		return
	}
	data, err := messages.EncodeWire(answer)
	if err == nil {
		err = msg.Respond(data)
	}
	if err != nil {
		m.log.Debug("a move could not be answered", "error", err)
	}
}

// take opens a tenant whose owner has released it for this member. The requests that wait for it go on
// in any case: each is told for itself why the tenant cannot be opened.
func (m *Member) take(in move) {
	defer m.arrivals.ended(in.Key, in.From)
	if m.Leaving() {
		return // since it agreed; whoever asks is told by the others whom to ask
	}
	ctx, cancel := context.WithTimeout(m.life, m.cfg.MoveTimeout)
	defer cancel()
	if _, err := m.node.Tenant(ctx, in.Key.Org, in.Key.Tenant); err != nil {
		if e := messages.AsError(err); e.Code == messages.CodeIncapable {
			m.unable.remember(in.Key, e, m.cfg.Now().Add(rememberUnable))
		}
		m.untrusted.Warn("a tenant that was handed over could not be opened; the next request tries again", "key", in.Key.String(), "code", messages.CodeOf(err))
	}
}

func (m *Member) send(ctx context.Context, to, kind string, key messages.Key) error {
	left := m.cfg.MoveTimeout
	if deadline, ok := ctx.Deadline(); ok {
		left = min(left, time.Until(deadline))
	}
	data, err := messages.EncodeWire(move{Kind: kind, Key: key, From: m.self, MostMS: left.Milliseconds(), Needs: m.wants(key).schema})
	if err != nil {
		return err
	}
	if kind != moveExpect { // whether it arrives or not, there is nothing to be done
		return m.conn.Publish(m.subjects.Member(to), data)
	}
	ctx, cancel := context.WithTimeout(ctx, m.cfg.DeadAfter)
	defer cancel()
	msg, err := m.conn.RequestWithContext(ctx, m.subjects.Member(to), data)
	if err != nil {
		return &messages.Error{Code: messages.CodeUnavailable, Key: key.String(), Owner: to, Message: "the next owner does not answer", Err: err}
	}
	var reply moveReply
	if err := json.Unmarshal(msg.Data, &reply); err != nil {
		return &messages.Error{Code: messages.CodeInternal, Key: key.String(), Owner: to, Message: "the next owner's answer cannot be read", Err: err}
	}
	if reply.Error != nil {
		return reply.Error
	}
	return nil
}

// notTaken is the error of a move that has not begun: the next owner does not take the tenant, or is not there any more.
type notTaken struct{ error }

func (e notTaken) Unwrap() error { return e.error }

// move hands one tenant to another member.
func (m *Member) move(ctx context.Context, key messages.Key, to string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.MoveTimeout)
	defer cancel()
	begun := m.cfg.Now()
	defer func() { m.metrics.moved(m.cfg.Now().Sub(begun), err) }()
	if err := m.send(ctx, to, moveExpect, key); err != nil {
		return notTaken{err}
	}
	// Before the release: whoever asks right after it must be sent on.
	m.departures.remember(key, to)
	if err := m.node.Move(ctx, key, to); err != nil {
		m.departures.forget(key)
		_ = m.send(ctx, to, moveKeep, key)
		return err
	}
	_ = m.send(ctx, to, moveTake, key) // the lease is released: if this gets lost, the next request opens the tenant there
	return nil
}

// place returns the member that should have a tenant which this node serves, other than those to avoid; "": this one, or nobody else can. That the
// disk is full is no reason to move what needs no room.
func (m *Member) place(key messages.Key, avoid ...string) string {
	if m.says() == StateFull && !m.node.Cramped(key) {
		return ""
	}
	if to := m.suggest(m.roster.Load(), key, avoid); to != m.self && !slices.Contains(avoid, to) {
		return to
	}
	return ""
}

// misplaced returns the tenants that this node serves and another member should.
func (m *Member) misplaced() []messages.Key {
	return slices.DeleteFunc(m.node.Serving(), func(key messages.Key) bool { return m.place(key) == "" })
}

// leftBehind says which tenants nobody else can open.
func (m *Member) leftBehind(keys []messages.Key) error {
	var errs []error
	for _, key := range keys {
		errs = append(errs, &messages.Error{Code: messages.CodeIncapable, Key: key.String(), Message: "no member that goes on can open the tenant"})
	}
	return errors.Join(errs...)
}

// moveAll moves everything that this node serves, for Leave.
func (m *Member) moveAll(ctx context.Context) error {
	var errs []error
	// Again: a tenant may have been opening when the first list was made, or its next owner have died.
	for range 3 {
		list := m.misplaced()
		if len(list) == 0 || ctx.Err() != nil {
			break
		}
		errs = m.moveEach(ctx, list, 0)
	}
	return errors.Join(errs...)
}

// A member that leaves with thousands of tenants moves more of them at a time: one more for every perMove, up to
// mostMoves.
const (
	perMove   = 100
	mostMoves = 32
)

// othersLeave reports whether another member is on its way out. Nobody shares tenants out then: the one that leaves needs the
// durable store for its own moves, and if it takes a NATS server with it, what is being handed off at that moment waits for
// the election of other leaders.
func (m *Member) othersLeave() bool {
	return slices.ContainsFunc(m.roster.Load().all, func(i Info) bool { return i.Owner != m.self && i.State == StateLeaving })
}

// share is place for tenants that are only shared out.
func (m *Member) share(key messages.Key, avoid ...string) string {
	if m.othersLeave() {
		return "" // it is looked at again when they have left
	}
	return m.place(key, avoid...)
}

// moveEach moves tenants, some at a time, with a pause before each. A long list takes a while, so each goes to the
// member that should have it by then.
func (m *Member) moveEach(ctx context.Context, list []messages.Key, pause time.Duration) []error {
	return m.moveTo(ctx, list, pause, m.place)
}

// moveTo is moveEach to where place says; "": nowhere. Who does not take a tenant, or is gone, is passed over.
func (m *Member) moveTo(ctx context.Context, list []messages.Key, pause time.Duration, place func(key messages.Key, avoid ...string) string) []error {
	var group errgroup.Group
	group.SetLimit(max(m.cfg.MoveParallel, min(len(list)/perMove, mostMoves)))
	failed := make(chan error, len(list))
	for _, key := range list {
		if pause > 0 && !sleep(ctx, pause) {
			break
		}
		group.Go(func() error {
			to := place(key)
			if to == "" || ctx.Err() != nil {
				return nil
			}
			err := m.move(ctx, key, to)
			for avoid := []string{to}; errors.As(err, new(notTaken)) && ctx.Err() == nil; avoid = append(avoid, to) {
				if to = place(key, avoid...); to == "" {
					break
				}
				err = m.move(ctx, key, to)
			}
			if err != nil && messages.CodeOf(err) != messages.CodeNotOwner { // it closed in between
				m.log.Warn("a tenant was not handed over", "key", key.String(), "to", to, "code", messages.CodeOf(err))
				failed <- err
			}
			return nil
		})
	}
	_ = group.Wait() // the errors are in failed
	close(failed)
	var errs []error
	for err := range failed {
		errs = append(errs, err)
	}
	return errs
}

// unsettled is how many times Config.SettleAfter a rebalancing is put off while members come and go.
const unsettled = 10

// rebalance is the goroutine that moves tenants to where they belong, once the members have not changed for a
// while.
func (m *Member) rebalance() {
	pause := time.Second / time.Duration(m.cfg.MovesPerSecond)
	for {
		// Spread, so that the members do not all look at the same moment.
		wait := m.cfg.RebalanceEvery + rand.N(m.cfg.RebalanceEvery/4+1)
		select {
		case <-m.changed:
			wait = m.cfg.SettleAfter
		case <-m.cramped:
			m.relieve(m.settled, pause)
			continue
		case <-time.After(wait):
			wait = 0
		case <-m.settled.Done():
			return
		}
		// A member that comes and goes all the time must not keep the others from their tenants.
		enough := time.After(unsettled * m.cfg.SettleAfter)
		for settled := wait == 0; !settled; {
			select {
			case <-m.changed:
			case <-enough:
				settled = true
			case <-time.After(wait):
				settled = !m.othersLeave() // their end is a change
			case <-m.settled.Done():
				return
			}
		}
		list := m.misplaced()
		if len(list) == 0 || m.othersLeave() {
			continue
		}
		m.log.Info("moving tenants to the members that should have them", "tenants", len(list))
		m.moveTo(m.settled, list, pause, m.share)
	}
}

// sleep waits, and reports whether it was to the end.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
