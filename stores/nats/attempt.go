package nats

import (
	"crypto/rand"
	"encoding/json"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

// phase is what an attempt waits for.
type phase int

const (
	phaseLoad     phase = iota // the last message of the key
	phaseScan                  // the last well-formed one, if the last is not
	phaseConfirm               // the proof that the view is the newest
	phaseTime                  // the store's time of that proof
	phasePropose               // the acknowledgement of the proposal
	phaseReadBack              // the store's time of the proposal
	phaseSettle                // what became of a proposal whose acknowledgement was lost
	phaseDone
)

const opRead = "" // the operation of a Read

// attempt is one operation on one key, as a machine that takes one step with each round trip. It is
// used by one goroutine.
type attempt struct {
	names    names
	key      messages.Key
	want     proposal // Op, Owner, Epoch, TTL
	replicas int

	phase     phase
	cur       view
	confirmed bool   // cur was the newest at some time after the attempt began
	seq       uint64 // of the message to read back
	scan      uint64 // where the scan, or the settling, goes on
	doubt     bool   // a proposal upon cur may have been stored
	sent      proposal
	data      []byte

	after   *record // the record at the end; nil: the key was never acquired
	granted bool
	err     error
}

// request returns what is to be sent for the next step.
func (a *attempt) request(l *link) *natsgo.Msg {
	n := a.names
	filter := n.key(a.key)
	switch a.phase {
	case phaseScan:
		return l.get(n.stream, getNext(filter, a.scan))
	case phaseSettle:
		return l.get(n.stream, getNext(filter, a.scan))
	case phaseConfirm:
		return compareAndSet(n.confirm(), filter, a.cur.seq, nil)
	case phaseTime, phaseReadBack:
		return l.get(n.stream, getSeq(a.seq))
	case phasePropose:
		return compareAndSet(n.subject(a.key, a.want.Op), filter, a.cur.seq, a.data)
	}
	return l.get(n.stream, getLast(filter))
}

// answer takes the reply to a request; nil: there was none. It reports whether to pause before the next.
func (a *attempt) answer(m *natsgo.Msg) (pause bool, why error) {
	switch a.phase {
	case phaseConfirm, phasePropose:
		return a.acked(m)
	}
	s, err := parseStored(m)
	if err != nil {
		return true, err
	}
	switch a.phase {
	case phaseLoad:
		return a.loaded(s), nil
	case phaseScan:
		return a.scanned(s), nil
	case phaseSettle:
		return a.settled(s), nil
	case phaseTime:
		if s == nil { // pushed out by other confirmations in the meantime
			a.phase = phaseConfirm
			return true, nil
		}
		a.decideAt(s.Time.UnixNano())
	case phaseReadBack:
		if s == nil {
			return true, nil // a server that does not know yet that it leads no more
		}
		p, _, ok := a.names.parse(a.key, s)
		if !ok || p.Nonce != a.sent.Nonce {
			a.finish(a.cur.rec, corrupt(a.names.stream, "an acknowledged message is another one"))
			return false, nil
		}
		a.stored(s)
	}
	return false, nil
}

func (a *attempt) loaded(s *stored) (pause bool) {
	a.confirmed, a.doubt = false, false
	if s == nil {
		a.cur = view{}
		a.decide()
		return false
	}
	a.cur = view{seq: s.Seq}
	if p, _, ok := a.names.parse(a.key, s); ok {
		after, _ := p.judge(s.Time.UnixNano())
		a.cur.rec = &after
		a.decide()
		return false
	}
	// Somebody else has written here. What counts is the last message before it that is ours.
	a.phase, a.scan = phaseScan, 1
	return false
}

// scanned walks through all messages of the key, up to the one that was loaded.
func (a *attempt) scanned(s *stored) (pause bool) {
	if s != nil && s.Seq <= a.cur.seq {
		if p, _, ok := a.names.parse(a.key, s); ok {
			after, _ := p.judge(s.Time.UnixNano())
			a.cur.rec = &after
		}
		a.scan = s.Seq + 1
		if s.Seq < a.cur.seq {
			return false
		}
	}
	if a.cur.rec == nil {
		// It may have been there, and been pushed out: granting epoch 1 again would break everything.
		a.finish(nil, corrupt(a.names.base(a.key), "the key has messages, but none is a lease record"))
		return false
	}
	a.decide()
	return false
}

// decide chooses the next step from what is known of the key.
func (a *attempt) decide() {
	rec := a.cur.rec
	switch {
	case a.want.Op == opRead:
		if a.replicas > 1 && !a.confirmed {
			a.phase = phaseConfirm
		} else {
			a.finish(rec, nil)
		}
	case a.want.Op == messages.OpAcquire:
		// A lease that may be live is not written upon: contenders would fill the trail with refusals.
		if rec != nil && rec.End > rec.At {
			a.phase = phaseConfirm
		} else {
			a.propose()
		}
	case a.want.Op == messages.OpReseed:
		switch {
		case rec != nil && rec.End > rec.At && !a.want.Seed.Live, a.replicas > 1 && !a.confirmed:
			a.phase = phaseConfirm // like an acquire
		default:
			a.reseed()
		}
	case rec == nil || rec.Epoch < a.want.Epoch:
		// A server that leads no more might not know of the grant.
		if a.replicas > 1 && !a.confirmed {
			a.phase = phaseConfirm
			return
		}
		a.refuse()
	case rec.Epoch > a.want.Epoch || rec.Owner != a.want.Owner || rec.End <= rec.At:
		a.refuse() // true for ever, so it needs no proof
	default:
		a.propose()
	}
}

// decideAt goes on when the view is confirmed, and the store's time was now then.
func (a *attempt) decideAt(now int64) {
	rec := a.cur.rec
	acquires := a.want.Op == messages.OpAcquire || a.want.Op == messages.OpReseed && !a.want.Seed.Live
	if acquires && rec != nil && max(now, rec.At) < rec.End {
		a.finish(rec, stores.Held(rec.lease(a.key), time.Duration(rec.End-max(now, rec.At))))
		return
	}
	if a.want.Op == messages.OpReseed {
		a.reseed()
		return
	}
	a.propose()
}

// reseed proposes, unless nothing is missing in the record.
func (a *attempt) reseed() {
	var rec record
	if a.cur.rec != nil {
		rec = *a.cur.rec
	}
	if _, raised := a.want.Seed.raise(rec, rec.At); !raised {
		a.finish(a.cur.rec, nil)
		return
	}
	a.propose()
}

// refuse ends an operation of somebody who is not the holder.
func (a *attempt) refuse() {
	var lease messages.Lease
	if a.cur.rec != nil {
		lease = a.cur.rec.lease(a.key)
	}
	a.finish(a.cur.rec, stores.Holder(a.key, lease, true, a.want.Owner, a.want.Epoch))
}

func (a *attempt) propose() {
	a.sent = a.want
	a.sent.Version, a.sent.Prev, a.sent.Nonce = version, a.cur.rec, rand.Text()
	data, err := json.Marshal(a.sent)
	if err != nil { // a struct of numbers and strings
		a.finish(a.cur.rec, &messages.Error{Code: messages.CodeInternal, Message: "encode a proposal", Err: err})
		return
	}
	a.data, a.phase = data, phasePropose
}

// acked takes the answer to a proposal or a confirmation.
func (a *attempt) acked(m *natsgo.Msg) (pause bool, why error) {
	proposed := a.phase == phasePropose
	k, err := parseAck(m)
	switch {
	case err != nil: // lost: it may have been stored, or may be later
		if proposed && m == nil {
			a.doubt = true
		}
		if a.doubt {
			a.phase, a.scan = phaseSettle, a.cur.seq+1
		}
		return true, err
	case k.Err == nil && proposed:
		a.seq, a.phase = k.Seq, phaseReadBack
		return false, nil
	case k.Err == nil:
		a.confirmed = true
		if a.want.Op == messages.OpAcquire || a.want.Op == messages.OpReseed {
			a.seq, a.phase = k.Seq, phaseTime
		} else {
			a.decide()
		}
		return false, nil
	case k.Err.ErrCode == codeWrongSequence || k.Err.ErrCode == codeInProcess:
		if a.doubt {
			a.phase, a.scan = phaseSettle, a.cur.seq+1
		} else {
			a.phase = phaseLoad
		}
		return true, k.Err
	case storageCodes[k.Err.ErrCode]:
		a.finish(a.cur.rec, noRoom(k.Err))
		return false, k.Err
	}
	return true, k.Err
}

// settled looks at the first well-formed message after cur: nothing but one proposal upon cur can be it.
func (a *attempt) settled(s *stored) (pause bool) {
	if s == nil {
		a.phase = phasePropose // not there yet: the same bytes again, of which at most one can be stored
		if a.scan > a.cur.seq+1 {
			a.phase = phaseLoad // what is not ours came after cur: the leader compares with that from now on
		}
		return true
	}
	p, _, ok := a.names.parse(a.key, s)
	switch {
	case !ok:
		a.scan = s.Seq + 1
	case p.Nonce == a.sent.Nonce:
		a.stored(s)
	default:
		a.phase = phaseLoad // somebody else was first: ours was not stored, and will never be
	}
	return false
}

// stored judges the proposal, now that its time is known.
func (a *attempt) stored(s *stored) {
	after, granted := a.sent.judge(s.Time.UnixNano())
	a.cur = view{seq: s.Seq, rec: &after}
	a.granted = granted
	switch {
	case granted:
		a.finish(&after, nil)
	case a.want.Op == messages.OpAcquire || a.want.Op == messages.OpReseed:
		a.finish(&after, stores.Held(after.lease(a.key), time.Duration(after.End-after.At)))
	default:
		a.refuse()
	}
}

func (a *attempt) finish(after *record, err error) {
	a.phase, a.after, a.err = phaseDone, after, err
}
