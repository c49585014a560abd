package sim

import (
	"context"
	"encoding/json"
	"time"

	"github.com/leasehold/leasehold/drill/history"
	"github.com/leasehold/leasehold/messages"
)

// event is an event of a client's; the payload belongs to the ID, so that an idempotency key always comes with the same one.
func event(id, idemKey string) messages.Event {
	payload, _ := json.Marshal(map[string]string{"of": id}) // strings can be written
	return messages.Event{Kind: "sim.write", SubjectID: id, IdemKey: idemKey, Payload: payload}
}

// append appends one event without an idempotency key, once.
func (c *client) append(ctx context.Context) {
	c.attempt(ctx, []messages.Event{event(c.id(), "")}, 0)
}

// appendOnce appends one event with an idempotency key, and tries again until it is acknowledged.
func (c *client) appendOnce(ctx context.Context) {
	id := c.id()
	c.insist(ctx, []messages.Event{event(id, "key-"+id)})
}

// appendTogether appends several events at once. Now and then one of them is refused in the middle of them: nothing of the
// others must be stored.
func (c *client) appendTogether(ctx context.Context) {
	switch chance := c.r.Float64(); {
	case chance < 0.4:
		c.attempt(ctx, c.together(), 0, messages.CodeIdempotencyConflict)
	case chance < 0.7:
		c.attempt(ctx, []messages.Event{event(c.id(), ""), event(c.id(), ""), event(c.id(), "")}, 0)
	default:
		one, two := c.id(), c.id()
		c.insist(ctx, []messages.Event{event(one, "key-"+one), event(two, "key-"+two)})
	}
}

// together returns events of which one has the idempotency key of an older event, and is another one.
func (c *client) together() []messages.Event {
	key := ""
	if _, told, _ := c.memo.now(); len(told) > 0 {
		key = told[c.r.IntN(len(told))].key
	}
	return []messages.Event{event(c.id(), ""), event(c.id(), key), event(c.id(), "")}
}

// insist repeats an append until it is acknowledged.
func (c *client) insist(ctx context.Context, events []messages.Event) {
	for attempt := range 8 {
		if c.attempt(ctx, events, attempt) == history.Acked || !rest(ctx, between(c.r, 100*time.Millisecond, 4*time.Second)) {
			// A retry after the acknowledgement must find the first one.
			if c.r.Float64() < 0.2 && ctx.Err() == nil {
				c.attempt(ctx, events, attempt+100)
			}
			return
		}
	}
}

// attempt makes one request to append and writes down what comes of it.
func (c *client) attempt(ctx context.Context, events []messages.Event, attempt int, justified ...messages.Code) history.Outcome {
	var writes []int
	req := messages.Request{Action: messages.ActionAppend, Events: events}
	reply, l := c.ask(ctx, c.timeout(), req, func(l *life) { writes = c.intendAppend(l, events, attempt) }, justified...)
	if reply == nil {
		return history.Refused // it was never sent
	}
	c.answerAppend(writes, l, reply)
	return history.OutcomeOf(errorOf(reply))
}

// intendAppend writes an append down before it is sent.
func (c *client) intendAppend(l *life, events []messages.Event, attempt int) (writes []int) {
	group := ""
	if len(events) > 1 {
		group = events[0].SubjectID
	}
	for _, e := range events {
		writes = append(writes, c.w.intend(history.Write{Key: c.key, ID: e.SubjectID, IdemKey: e.IdemKey, Group: group, Attempt: attempt, Owner: l.owner}))
	}
	return writes
}

func (c *client) answerAppend(writes []int, l *life, reply *messages.Reply) {
	for i, at := range writes {
		var done messages.Appended
		if i < len(reply.Appended) {
			done = reply.Appended[i]
		}
		c.w.answer(at, l, reply.Epoch, done, errorOf(reply))
	}
}

// intend writes a request down before it is sent.
func (w *world) intend(write history.Write) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	write.Sent = time.Now()
	w.history.Writes = append(w.history.Writes, write)
	return len(w.history.Writes) - 1
}

// answer writes its answer down; epoch is 0 where the answer does not tell. What a killed process still says, nobody hears.
func (w *world) answer(i int, l *life, epoch uint64, done messages.Appended, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	write := &w.history.Writes[i]
	write.Answered, write.Outcome, write.Code = time.Now(), history.OutcomeOf(err), messages.CodeOf(err)
	if e := messages.AsError(err); e != nil {
		write.Reason = e.Reason
		if write.Outcome == history.Unknown {
			write.Cause = e.Cause
		}
	}
	if l.dead() {
		write.Outcome = history.Unknown
	}
	switch write.Outcome {
	case history.Acked:
		write.Epoch, write.Seq, write.Duplicate = epoch, done.Seq, done.Duplicate
		w.stats.Acked++
	case history.Refused:
		w.stats.Refused++
	default:
		w.stats.Unknown++
	}
	w.logLocked("%s write %s#%d: %s %s %s seq %d", l.owner, write.ID, write.Attempt, write.Outcome, write.Code, write.Reason, write.Seq)
}
