package ledgeractor

import (
	"context"
	"database/sql/driver"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// timeLayout is how ts is stored: UTC, microseconds, so that the text sorts as the time does.
const timeLayout = "2006-01-02T15:04:05.000000Z"

// eventRow is an event that is ready to be bound. It shares no memory with the caller's event, who
// may go away, and reuse it, before its turn comes.
type eventRow struct {
	args []driver.NamedValue
	find []driver.NamedValue // of the lookup by idempotency key; nil without one
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
		at := e.Time
		if at.IsZero() {
			at = cfg.Now()
		}
		at = at.UTC()
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
		tenant, at.Format(timeLayout), orNull(e.Actor), e.Kind, orNull(e.SubjectID), payload, orNull(e.IdemKey), orNull(e.RunID),
	}
	row := eventRow{args: named(values[:])}
	if e.IdemKey != "" {
		row.find = []driver.NamedValue{{Ordinal: 1, Value: tenant}, {Ordinal: 2, Value: e.IdemKey}}
	}
	return row
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
		rows, err := g.find.QueryContext(context.Background(), row.find)
		if err != nil {
			return messages.Appended{}, g.failed(err)
		}
		var seq [1]driver.Value
		err = rows.Next(seq[:])
		_ = rows.Close() // resets the statement; a failure was err already
		if n, ok := seq[0].(int64); ok && err == nil {
			return messages.Appended{Seq: n, Duplicate: true}, nil
		}
	}
	result, err := g.insert.ExecContext(context.Background(), row.args)
	if err != nil {
		return messages.Appended{}, g.failed(err)
	}
	g.wrote = true
	seq, err := result.LastInsertId()
	return messages.Appended{Seq: seq}, g.failed(err)
}
