package sim

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/leasehold/leasehold/drill/history"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

// The simulation's own application: payments, each of them an event, an entry and a change of the balance, in one transaction; and
// marks, a transaction without an event.
const schema = `
	CREATE TABLE sim_entries (seq INTEGER PRIMARY KEY, id TEXT NOT NULL, amount INTEGER NOT NULL) STRICT;
	CREATE TABLE sim_numbers (name TEXT PRIMARY KEY, n INTEGER NOT NULL) STRICT, WITHOUT ROWID;
	INSERT INTO sim_numbers VALUES ('balance', 0);
`

const (
	commandPay  = "sim.pay"
	commandMark = "sim.mark"
)

// withApp adds the application to what the user of the package registers.
func (o Options) withApp() Options {
	next := ledgeractor.Newest(o.Migrations) + 1
	o.Migrations = append(slices.Clone(o.Migrations), ledgeractor.Migration{Version: next, Name: "simulation", SQL: schema})
	o.Commands = maps.Clone(o.Commands)
	if o.Commands == nil {
		o.Commands = map[string]ledgeractor.Command{}
	}
	o.Commands[commandPay], o.Commands[commandMark] = runPay, runMark
	return o
}

// Ends of a transaction.
const (
	endsWell  = ""
	endsError = "error" // after all of its work
	endsPanic = "panic"
)

// payment is the input of a sim.pay.
type payment struct {
	ID     string `json:"id"`
	Amount int64  `json:"amount"`
	Ends   string `json:"ends,omitempty"`
}

// paid is its output.
type paid struct {
	ID  string `json:"id"`
	Seq int64  `json:"seq"`
}

// mark is the input of a sim.mark, and what a client remembers of them: its newest that was acknowledged, and at which epoch.
type mark struct {
	Client string `json:"client"`
	N      int64  `json:"n"`
	Ends   string `json:"ends,omitempty"`
	epoch  uint64
}

func end(ends string) error {
	switch ends {
	case endsError:
		return &messages.ApplicationError{Code: "changed_its_mind"}
	case endsPanic:
		panic("the application has a bug")
	}
	return nil
}

func runPay(ctx context.Context, tx *ledgeractor.Tx, in json.RawMessage) (any, error) {
	var p payment
	if err := json.Unmarshal(in, &p); err != nil {
		return nil, err
	}
	done, err := pay(ctx, tx, p)
	if err != nil {
		return nil, err
	}
	return paid{p.ID, done.Seq}, end(p.Ends)
}

func pay(ctx context.Context, tx *ledgeractor.Tx, p payment) (done messages.Appended, err error) {
	if _, err := tx.ExecContext(ctx, `UPDATE sim_numbers SET n = n + ? WHERE name = 'balance'`, p.Amount); err != nil {
		return done, err
	}
	payload, err := json.Marshal(p)
	if err != nil {
		return done, err
	}
	if done, err = tx.Append(ctx, messages.Event{Kind: commandPay, SubjectID: p.ID, Payload: payload}); err != nil {
		return done, err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO sim_entries VALUES (?, ?, ?)`, done.Seq, p.ID, p.Amount)
	return done, err
}

func runMark(ctx context.Context, tx *ledgeractor.Tx, in json.RawMessage) (any, error) {
	var m mark
	if err := json.Unmarshal(in, &m); err != nil {
		return nil, err
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO sim_numbers VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET n = excluded.n`, m.Client, m.N); err != nil {
		return nil, err
	}
	return nil, end(m.Ends)
}

// wayOut draws how a transaction ends, and which error that justifies.
func (c *client) wayOut() (ends string, justified messages.Code) {
	switch chance := c.r.Float64(); {
	case chance < 0.15:
		return endsError, messages.CodeCommandFailed
	case chance < 0.2:
		return endsPanic, messages.CodePanic
	}
	return endsWell, ""
}

// call calls a command: a payment, one that runs once however often it is asked for, or a mark.
func (c *client) call(ctx context.Context) {
	ends, justified := c.wayOut()
	if c.r.Float64() < 0.4 {
		c.setMark(ctx, ends, justified)
		return
	}
	p := payment{ID: c.id(), Amount: c.r.Int64N(100), Ends: ends}
	if c.r.Float64() < 0.5 {
		c.pay(ctx, p, "", 0, justified)
		return
	}
	for attempt := range 6 {
		if c.pay(ctx, p, "key-"+p.ID, attempt, justified) == history.Acked || !rest(ctx, between(c.r, 100*time.Millisecond, 4*time.Second)) {
			if c.r.Float64() < 0.3 && ctx.Err() == nil {
				c.pay(ctx, p, "key-"+p.ID, attempt+100, justified)
			}
			return
		}
	}
}

// pay makes one request for a payment and writes down what comes of it.
func (c *client) pay(ctx context.Context, p payment, key string, attempt int, justified messages.Code) history.Outcome {
	at := -1
	reply, l := c.ask(ctx, c.timeout(), payRequest(p, key), func(l *life) {
		at = c.w.intend(history.Write{Key: c.key, ID: p.ID, Attempt: attempt, Owner: l.owner})
	}, justified)
	if reply == nil {
		return history.Refused // it was never sent
	}
	c.answerPay(at, l, p, reply)
	return history.OutcomeOf(errorOf(reply))
}

func payRequest(p payment, key string) messages.Request {
	in, _ := json.Marshal(p) // it can be written
	return messages.Request{Action: messages.ActionCall, Command: commandPay, IdemKey: key, Input: in}
}

func (c *client) answerPay(at int, l *life, p payment, reply *messages.Reply) {
	var out paid
	if reply.Error == nil && (json.Unmarshal(reply.Output, &out) != nil || out.ID != p.ID || p.Ends != endsWell || out.Seq > reply.Seq) {
		c.w.fail("W2", c.key, "call at %s: %s ends with %q, and was answered with %s from the state of seq %d", l.owner, p.ID, p.Ends, reply.Output, reply.Seq)
	}
	c.w.answer(at, l, reply.Epoch, messages.Appended{Seq: out.Seq, Duplicate: reply.Duplicate}, errorOf(reply))
}

// setMark runs a transaction without an event.
func (c *client) setMark(ctx context.Context, ends string, justified messages.Code) {
	c.n++
	m := mark{Client: c.name, N: int64(c.n), Ends: ends}
	if m.Ends != endsWell {
		m.N = -m.N // it must never be seen
	}
	in, _ := json.Marshal(m) // it can be written
	reply, l := c.ask(ctx, c.timeout(), messages.Request{Action: messages.ActionCall, Command: commandMark, Input: in}, nil, justified)
	if reply != nil && reply.Error == nil && !l.dead() {
		m.epoch = reply.Epoch
		c.memo.mu.Lock()
		c.memo.mark = m
		c.memo.mu.Unlock()
	}
}

// agree is one row: what the application's tables say, and what the events say. The last three are the client's own mark, the
// newest event, and how many entries are not those of their event.
const agree = `
	SELECT (SELECT n FROM sim_numbers WHERE name = 'balance'), (SELECT coalesce(sum(amount), 0) FROM sim_entries),
		(SELECT count(*) FROM sim_entries), (SELECT count(*) FROM events WHERE kind = 'sim.pay'),
		(SELECT coalesce(max(n), 0) FROM sim_numbers WHERE name = ?), (SELECT coalesce(max(seq), 0) FROM events),
		(SELECT count(*) FROM sim_entries AS e LEFT JOIN events AS v USING (seq)
			WHERE v.subject_id IS NOT e.id OR json_extract(v.payload, '$.amount') IS NOT e.amount)`

// audit asks whether the application's tables and the events agree, which is so in every state that a reader can see.
func (c *client) audit(ctx context.Context) {
	reply, l := c.ask(ctx, c.timeout(), c.auditRequest(), nil)
	if reply != nil && reply.Error == nil && !l.dead() {
		c.checkAudit(l, reply)
	}
}

func (c *client) auditRequest() messages.Request {
	client, _ := messages.EncodeValue(c.name) // a string can be written
	return messages.Request{Action: messages.ActionQuery, SQL: agree, Args: []json.RawMessage{client}}
}

func (c *client) checkAudit(l *life, reply *messages.Reply) {
	var v [7]int64
	if reply.Result == nil || len(reply.Result.Rows) != 1 || len(reply.Result.Rows[0]) != len(v) {
		c.w.fail("W3", c.key, "query at %s: %v is no answer", l.owner, reply.Result)
		return
	}
	for i, value := range reply.Result.Rows[0] {
		n, ok := value.(int64)
		if !ok {
			c.w.fail("Q4", c.key, "query at %s: column %d is %v", l.owner, i, value)
			return
		}
		v[i] = n
	}
	_, _, mark := c.memo.now()
	switch {
	case v[0] != v[1], v[2] != v[3], v[6] != 0:
		c.w.fail("W3", c.key, "query at %s, e%d/%d: the balance is %d, the entries %d with a sum of %d, the payments among the events %d; %d entries are not those of their event",
			l.owner, reply.Epoch, reply.Seq, v[0], v[2], v[1], v[3], v[6])
	case v[5] != reply.Seq:
		c.w.fail("Q4", c.key, "query at %s, e%d: from the state of seq %d, and shows %d", l.owner, reply.Epoch, reply.Seq, v[5])
	case v[4] < 0:
		c.w.fail("W3", c.key, "query at %s, e%d: the mark %d, whose transaction has failed, is there", l.owner, reply.Epoch, -v[4])
	case mark.epoch == reply.Epoch && v[4] < mark.N:
		c.w.fail("W3", c.key, "query at %s, e%d: the mark is %d, and %d was acknowledged", l.owner, reply.Epoch, v[4], mark.N)
	}
}
