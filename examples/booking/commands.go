package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

// The states of a booking.
const (
	statePending     = "pending"
	stateConfirmed   = "confirmed"
	stateCompensated = "compensated"
)

// Request asks for a booking. ID is the caller's: the same request has the same id, however often it
// is sent.
type Request struct {
	ID         string `json:"id"`
	Room       string `json:"room"`
	PriceCents int64  `json:"price_cents"`
}

// Confirmation ends a booking well: Reference is the hotel's.
type Confirmation struct {
	ID        string `json:"id"`
	Reference string `json:"reference"`
}

// Compensation ends a booking that did not come about.
type Compensation struct {
	ID     string `json:"id"`
	Reason string `json:"reason"`
}

// Receipt is what every command answers, to the first call and to each retry alike.
type Receipt struct {
	ID    string `json:"id"`
	State string `json:"state"`
	// Seq is the place of the event that brought the booking into its state.
	Seq       int64  `json:"seq"`
	Reference string `json:"reference,omitempty"`
	Reason    string `json:"reason,omitempty"`
}

// migrations are the application's tables. A version that has run is never changed: the second one
// could not be added to the first.
var migrations = []ledgeractor.Migration{
	{Version: 1, Name: "bookings", SQL: `CREATE TABLE bookings (
  id TEXT PRIMARY KEY CHECK (id <> ''),
  room TEXT NOT NULL,
  price_cents INTEGER NOT NULL CHECK (price_cents >= 0),
  state TEXT NOT NULL CHECK (state IN ('pending', 'confirmed', 'compensated'))
) STRICT`},
	{Version: 2, Name: "receipts", SQL: `CREATE TABLE receipts (
  booking TEXT NOT NULL REFERENCES bookings (id),
  state TEXT NOT NULL,
  seq INTEGER NOT NULL,
  detail TEXT NOT NULL,
  PRIMARY KEY (booking, state)
) STRICT`},
}

// commands are what a client may call by name.
var commands = map[string]ledgeractor.Command{"book": book, "confirm": confirm, "compensate": compensate}

func book(ctx context.Context, tx *ledgeractor.Tx, in json.RawMessage) (any, error) {
	var req Request
	if err := decode(in, &req); err != nil {
		return nil, err
	}
	if req.ID == "" || req.Room == "" || req.PriceCents < 0 {
		return nil, refuse("a booking needs an id, a room, and a price that is not negative")
	}
	var had Request
	var state string
	err := tx.QueryRowContext(ctx, "SELECT room, price_cents, state FROM bookings WHERE id = ?", req.ID).Scan(&had.Room, &had.PriceCents, &state)
	switch {
	case err == nil && (had.Room != req.Room || had.PriceCents != req.PriceCents):
		return nil, refuse("another booking has this id")
	case err == nil:
		return receipt(ctx, tx, req.ID, state) // a retry
	case !errors.Is(err, sql.ErrNoRows):
		return nil, err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO bookings (id, room, price_cents, state) VALUES (?, ?, ?, ?)",
		req.ID, req.Room, req.PriceCents, statePending); err != nil {
		return nil, err
	}
	return record(ctx, tx, req.ID, statePending, "", req)
}

func confirm(ctx context.Context, tx *ledgeractor.Tx, in json.RawMessage) (any, error) {
	var c Confirmation
	if err := decode(in, &c); err != nil {
		return nil, err
	}
	if c.Reference == "" {
		return nil, refuse("a confirmation needs the hotel's reference")
	}
	return end(ctx, tx, c.ID, stateConfirmed, c.Reference, c)
}

func compensate(ctx context.Context, tx *ledgeractor.Tx, in json.RawMessage) (any, error) {
	var c Compensation
	if err := decode(in, &c); err != nil {
		return nil, err
	}
	return end(ctx, tx, c.ID, stateCompensated, c.Reason, c)
}

// end moves a pending booking to a state that it never leaves.
func end(ctx context.Context, tx *ledgeractor.Tx, id, state, detail string, event any) (any, error) {
	var now string
	err := tx.QueryRowContext(ctx, "SELECT state FROM bookings WHERE id = ?", id).Scan(&now)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, refuse("there is no such booking")
	case err != nil:
		return nil, err
	case now == state:
		return receipt(ctx, tx, id, state) // a retry
	case now != statePending:
		return nil, refuse("the booking is " + now + " already")
	}
	if _, err := tx.ExecContext(ctx, "UPDATE bookings SET state = ? WHERE id = ?", state, id); err != nil {
		return nil, err
	}
	return record(ctx, tx, id, state, detail, event)
}

// record appends the event of a step and keeps its receipt.
func record(ctx context.Context, tx *ledgeractor.Tx, id, state, detail string, event any) (any, error) {
	payload, err := json.Marshal(event)
	if err != nil {
		return nil, err
	}
	done, err := tx.Append(ctx, messages.Event{Kind: "booking." + state, SubjectID: id, IdemKey: id + "/" + state, Payload: payload})
	if err != nil {
		return nil, err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO receipts (booking, state, seq, detail) VALUES (?, ?, ?, ?)", id, state, done.Seq, detail); err != nil {
		return nil, err
	}
	return receipt(ctx, tx, id, state)
}

func receipt(ctx context.Context, tx *ledgeractor.Tx, id, state string) (any, error) {
	r := Receipt{ID: id, State: state}
	var detail string
	if err := tx.QueryRowContext(ctx, "SELECT seq, detail FROM receipts WHERE booking = ? AND state = ?", id, state).Scan(&r.Seq, &detail); err != nil {
		return nil, fmt.Errorf("receipt: %w", err)
	}
	switch state {
	case stateConfirmed:
		r.Reference = detail
	case stateCompensated:
		r.Reason = detail
	}
	return r, nil
}

// decode reads a command's input; a field that it does not know is refused.
func decode(in json.RawMessage, v any) error {
	d := json.NewDecoder(bytes.NewReader(in))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return refuse("the input does not decode")
	}
	return nil
}

// refuse is an error that the caller gets as it is: trying again cannot help.
func refuse(message string) error {
	return &messages.Error{Code: messages.CodeInvalidArgument, Message: message}
}
