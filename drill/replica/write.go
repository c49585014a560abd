package replica

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/drill/record"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

// Commands that writes go through: every fourth one, and those of the slow writers.
const (
	commandNote = "note"
	commandSlow = "slow-note"
)

// slowTakes is how long a slow write holds its transaction open.
const slowTakes = 60 * time.Millisecond

func note(ctx context.Context, tx *ledgeractor.Tx, in json.RawMessage) (any, error) {
	var e messages.Event
	if err := json.Unmarshal(in, &e); err != nil {
		return nil, err
	}
	return tx.Append(ctx, e)
}

func slowNote(ctx context.Context, tx *ledgeractor.Tx, in json.RawMessage) (any, error) {
	out, err := note(ctx, tx, in)
	pause(ctx, slowTakes)
	return out, err
}

// Pauses between tries.
const (
	afterHeld    = 60 * time.Millisecond // and as much again, at random
	afterRefusal = 20 * time.Millisecond
	callTimeout  = 5 * time.Second
)

// contend tries to open a tenant until ctx ends, and writes while it is open here.
func (r *replica) contend(ctx context.Context, key messages.Key) {
	random := rand.New(rand.NewPCG(r.cfg.Seed, uint64(r.cfg.Start)<<16^uint64(len(r.cfg.Node))))
	for n := 0; ctx.Err() == nil; n++ {
		select {
		case <-r.stand:
			return
		default:
		}
		call, cancel := context.WithTimeout(ctx, callTimeout)
		sent := record.Now()
		tenant, err := r.node.Tenant(call, key.Org, key.Tenant)
		if err == nil {
			err = tenant.Open(call)
		}
		cancel()
		if err != nil {
			if messages.CodeOf(err) != messages.CodeHeld {
				r.refused(record.Line{Key: key.String(), Op: "open", Since: sent}, err)
			}
			pause(ctx, afterHeld+time.Duration(random.Int64N(int64(afterHeld))))
			continue
		}
		var all sync.WaitGroup
		for w := range r.cfg.Writers {
			name := fmt.Sprintf("%s-%s-%d.%d-", r.cfg.Proc(), key.Tenant[len(key.Tenant)-4:], n, w)
			all.Go(func() { r.writer(ctx, tenant, name, w) })
		}
		all.Wait()
	}
}

// writer writes events, each with a name of its own, until another node holds the tenant.
func (r *replica) writer(ctx context.Context, tenant *actors.Tenant, name string, w int) {
	for n := 1; ctx.Err() == nil; n++ {
		e := messages.Event{Kind: "drill.written", Actor: r.cfg.Proc(), SubjectID: name + strconv.Itoa(n)}
		keyed := (n+w)%2 == 0
		if keyed {
			e.IdemKey = "key-" + e.SubjectID
		}
		command := ""
		switch {
		case r.slow.Load() && w%2 == 0:
			command = commandSlow
		case n%4 == 0:
			command = commandNote
		}
		err := r.send(ctx, tenant, e, 0, command)
		if keyed && (n%16 == 0 || errors.Is(err, messages.ErrUnknownOutcome)) {
			// What may or may not stand is asked for again, and so is, now and then, what does.
			err = r.send(ctx, tenant, e, 1, "")
		}
		switch messages.CodeOf(err) {
		case "":
			pause(ctx, r.cfg.Pace)
		case messages.CodeHeld:
			return
		default:
			pause(ctx, afterRefusal)
		}
	}
}

// send sends one write and records what comes of it.
func (r *replica) send(ctx context.Context, tenant *actors.Tenant, e messages.Event, attempt int, command string) error {
	l := record.Line{Kind: record.Intent, Key: tenant.Key().String(), Write: e.SubjectID, Idem: e.IdemKey, Attempt: attempt}
	e.Payload = json.RawMessage(`{"write":` + strconv.Quote(e.SubjectID) + `}`)
	r.write(l)
	l.Idem, l.Since = "", record.Now()
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var out messages.Appended
	var err error
	if command != "" {
		var in []byte
		if in, err = json.Marshal(e); err == nil {
			in, l.Epoch, err = tenant.CallAt(call, command, in)
		}
		if err == nil {
			err = json.Unmarshal(in, &out)
		}
	} else {
		var all []messages.Appended
		all, l.Epoch, err = tenant.AppendAt(call, []messages.Event{e})
		if err == nil {
			out = all[0]
		}
	}
	if err != nil {
		r.refused(l, err)
		return err
	}
	l.Kind, l.Seq, l.Duplicate = record.Ack, out.Seq, out.Duplicate
	r.write(l)
	return nil
}

func (r *replica) refused(l record.Line, err error) {
	l.Kind = record.Refused
	var typed *messages.Error
	if errors.As(err, &typed) {
		l.Code, l.Cause, l.Reason = typed.Code, typed.Cause, typed.Reason
		// An internal error is what a node answers when it does not know better.
		l.Untyped = typed.Code == messages.CodeInternal || typed.Code == ""
	} else {
		l.Code, l.Untyped = messages.CodeOf(err), true
	}
	if l.Untyped {
		l.Text = err.Error()
	}
	r.write(l)
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
