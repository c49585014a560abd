package ledgeractor

import (
	"bytes"
	"context"
	"database/sql/driver"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// eventRow is an event that is ready to be bound. It shares no memory with the caller's event, who
// may go away, and reuse it, before its turn comes.
type eventRow struct {
	args  []driver.NamedValue
	bytes int64               // of the event, as messages.Event.Size counts
	find  []driver.NamedValue // of the lookup by idempotency key; nil without one
}

// eventRows validates events and makes rows of them.
func eventRows(cfg Config, events []messages.Event) ([]eventRow, error) {
	switch {
	case len(events) == 0:
		return nil, invalid("an append needs at least one event")
	case len(events) > messages.MaxBatchEvents:
		return nil, tooLarge(fmt.Sprintf("an append has %d events, at most %d are allowed", len(events), messages.MaxBatchEvents))
	}
	bytes := 0
	rows := make([]eventRow, len(events))
	for i, e := range events {
		if err := e.Validate(); err != nil {
			return nil, err
		}
		if bytes += e.Size(); bytes > cfg.Limits.MaxInputBytes {
			return nil, tooLarge(fmt.Sprintf("the events of an append are over the limit of %d bytes", cfg.Limits.MaxInputBytes))
		}
		var at time.Time
		if e.Time != nil {
			at = e.Time.UTC()
		} else {
			at = cfg.Now().UTC()
		}
		if at.Year() < 0 || at.Year() > 9999 {
			return nil, invalid("the time of an event must be in the years 0 to 9999")
		}
		rows[i] = newEventRow(string(cfg.Key.Tenant), e, at)
	}
	return rows, nil
}

func newEventRow(tenant string, e messages.Event, at time.Time) eventRow {
	payload := "{}"
	if len(e.Payload) > 0 {
		payload = string(e.Payload)
	}
	values := [...]driver.Value{
		tenant, at.Format(messages.TimeLayout), orNull(e.Actor), e.Kind, orNull(e.SubjectID), payload, orNull(e.IdemKey), orNull(e.RunID),
	}
	row := eventRow{args: named(values[:]), bytes: int64(e.Size())}
	if e.IdemKey != "" {
		row.find = []driver.NamedValue{{Ordinal: 1, Value: tenant}, {Ordinal: 2, Value: e.IdemKey}}
	}
	return row
}

// sameAs reports whether the event is the one that was stored with its key: kind, subject and payload, as JSON, are the same. Who
// repeats an event may not know its time any more.
func (r eventRow) sameAs(stored []driver.Value) bool {
	kind, subject, payload := r.args[3].Value, r.args[4].Value, r.args[5].Value
	if stored[0] != kind || stored[1] != subject {
		return false
	}
	before, _ := stored[2].(string)
	now, _ := payload.(string)
	return before == now || bytes.Equal(messages.CanonicalJSON([]byte(before)), messages.CanonicalJSON([]byte(now)))
}

// conflict refuses an idempotency key that was used for something else.
func conflict(key, what string) error {
	return &messages.Error{Code: messages.CodeIdempotencyConflict, Key: key, Message: "the idempotency key was used for " + what}
}

func orNull(s string) driver.Value {
	if s == "" {
		return nil
	}
	return s
}

func tooLarge(message string) error {
	return &messages.Error{Code: messages.CodeTooLarge, Message: message}
}

// appendRow stores one event in the open transaction. tx is nil for the actor itself.
func (g *guard) appendRow(tx *Tx, row eventRow) (messages.Appended, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if tx != nil {
		if err := g.enter(tx.ctx, tx); err != nil {
			return messages.Appended{}, err
		}
	}
	g.own = true
	defer func() { g.own = false }()
	if row.find != nil {
		rows, err := storedRows(g.find.QueryContext(context.Background(), row.find))
		if err != nil {
			return messages.Appended{}, g.failed(err)
		}
		var first [4]driver.Value
		err = rows.Next(first[:])
		_ = rows.Close() // resets the statement; a failure was err already
		if seq, ok := first[0].(int64); ok && err == nil {
			if !row.sameAs(first[1:]) {
				return messages.Appended{}, conflict(g.fail.key, "another event: its kind, subject or payload differ")
			}
			return messages.Appended{Seq: seq, Duplicate: true}, nil
		}
	}
	result, err := g.insert.ExecContext(context.Background(), row.args)
	if err != nil {
		return messages.Appended{}, g.failed(err)
	}
	g.wrote = true
	g.bytes += row.bytes
	seq, err := result.LastInsertId()
	return messages.Appended{Seq: seq}, g.failed(err)
}
