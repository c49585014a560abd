package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// Ledger can call a registered command: an *actors.Tenant in process, or a client of the HTTP API.
type Ledger interface {
	Call(ctx context.Context, command string, in json.RawMessage) (json.RawMessage, error)
}

// Agent books rooms for one user.
type Agent struct {
	Ledger Ledger
	Hotel  *Hotel
}

// Book books a room and returns the receipt of how it ended. It may be called again with the same
// request at any time, also by another process: what was done already is not done twice.
func (a Agent) Book(ctx context.Context, req Request) (Receipt, error) {
	r, err := a.call(ctx, "book", req)
	if err != nil || r.State != statePending {
		return r, err
	}
	ref, err := a.Hotel.Reserve(req.ID)
	switch {
	case errors.Is(err, errSoldOut):
		return a.call(ctx, "compensate", Compensation{ID: req.ID, Reason: err.Error()})
	case err != nil:
		return r, err // still pending: book again
	}
	return a.call(ctx, "confirm", Confirmation{ID: req.ID, Reference: ref})
}

// call calls a command until it is answered or ctx ends. Each command may be repeated, so even an
// unknown outcome is simply asked about again.
func (a Agent) call(ctx context.Context, command string, in any) (Receipt, error) {
	data, err := json.Marshal(in)
	if err != nil {
		return Receipt{}, err
	}
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		out, err := a.Ledger.Call(ctx, command, data)
		if err == nil {
			var r Receipt
			return r, json.Unmarshal(out, &r)
		}
		e := messages.AsError(err)
		if !retryable(e.Code) {
			return Receipt{}, err
		}
		select {
		case <-time.After(max(wait, e.RetryAfter)):
		case <-ctx.Done():
			return Receipt{}, err
		}
	}
}

func retryable(code messages.Code) bool {
	switch code {
	case messages.CodeHeld, messages.CodeUnavailable, messages.CodeFenced, messages.CodeUnknownOutcome, messages.CodeDraining,
		messages.CodeOverloaded, messages.CodeUnsavedLimit, messages.CodeClosed, messages.CodeNotOwner:
		return true
	}
	return false
}
