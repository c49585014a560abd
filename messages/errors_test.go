package messages_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
)

// Across the wire, errors.Is and errors.As give the same answers; only the wrapped error stays.
func TestD13_AnErrorSurvivesTheWire(t *testing.T) {
	key := messages.Key{Org: "acme", Tenant: "t-3129611eac9be1d5994a2b216b06ed27"}
	lease := messages.Lease{Key: key, Owner: "n#1", Epoch: 7, TTL: time.Second, End: time.UnixMilli(1234).UTC(), Floor: 2}
	for name, e := range map[string]*messages.Error{
		"held": {Code: messages.CodeHeld, Message: "m", Key: key.String(), Owner: "n#1", Epoch: 7, Lease: &lease, RetryAfter: 1500 * time.Millisecond,
			Err: errors.New("stays")},
		"fenced":            messages.Fenced(key, 7, messages.ReasonExpiredLocally),
		"unknown":           messages.Unknown(key, 7, messages.Fenced(key, 7, messages.ReasonLeaseLost)),
		"corrupt":           {Code: messages.CodeCorrupt, Object: "acme/x"},
		"less than 1 ms":    {Code: messages.CodeOverloaded, RetryAfter: time.Microsecond},
		"an unknown future": {Code: "not-yet-known"},
	} {
		t.Run(name, func(t *testing.T) {
			wrapped := fmt.Errorf("outer: %w", e)
			data, err := json.Marshal(e)
			require.NoError(t, err)
			require.NotContains(t, string(data), "stays")
			var back *messages.Error
			require.NoError(t, json.Unmarshal(data, &back))
			want := *e
			want.Err = nil
			if want.RetryAfter > 0 && want.RetryAfter < time.Millisecond {
				want.RetryAfter = time.Millisecond
			}
			require.Equal(t, &want, back)
			for _, sentinel := range sentinels() {
				require.Equal(t, errors.Is(wrapped, sentinel), errors.Is(back, sentinel), "%v", sentinel)
			}
			var as *messages.Error
			require.ErrorAs(t, wrapped, &as)
			require.Same(t, e, as)
			require.NotEmpty(t, e.Error())
		})
	}
}

func sentinels() []error {
	return []error{messages.ErrInvalidID, messages.ErrInvalidArgument, messages.ErrOutOfRange, messages.ErrHeld, messages.ErrLost, messages.ErrUnavailable,
		messages.ErrFenced, messages.ErrUnknownOutcome, messages.ErrDraining, messages.ErrOverloaded, messages.ErrClosed, messages.ErrNotOwner, messages.ErrHistoryLost, messages.ErrIdempotencyConflict,
		messages.ErrCorrupt, messages.ErrLineageAhead, messages.ErrLineageMissing, messages.ErrReadOnly, messages.ErrTooLarge, messages.ErrNotFound, messages.ErrDeadlineExceeded,
		messages.ErrCanceled, messages.ErrPanic, messages.ErrCommandFailed, messages.ErrSQL, messages.ErrStorage, messages.ErrUnauthorized, messages.ErrInternal,
		context.DeadlineExceeded, context.Canceled, &messages.Error{Code: messages.CodeFenced, Reason: messages.ReasonLeaseLost}}
}

func TestD13_WhatAnErrorIs(t *testing.T) {
	key := messages.Key{Org: "acme", Tenant: "t-3129611eac9be1d5994a2b216b06ed27"}
	unknown := messages.Unknown(key, 3, messages.Fenced(key, 3, messages.ReasonLeaseLost))
	require.ErrorIs(t, unknown, messages.ErrUnknownOutcome)
	require.ErrorIs(t, unknown, messages.ErrFenced, "it is a fenced error too")
	require.NotErrorIs(t, unknown, messages.ErrLost)
	lost := &messages.Error{Code: messages.CodeFenced, Reason: messages.ReasonLeaseLost}
	require.ErrorIs(t, messages.Fenced(key, 3, messages.ReasonLeaseLost), lost, "a reason can be asked for")
	require.NotErrorIs(t, messages.Fenced(key, 3, messages.ReasonReleased), lost)
	require.NotErrorIs(t, &messages.Error{Code: messages.CodeHeld}, &messages.Error{}, "an error without a code is none of them")
	require.ErrorIs(t, messages.Unknown(key, 3, context.DeadlineExceeded), context.DeadlineExceeded)
	require.NotErrorIs(t, lost, fs.ErrNotExist)

	// Every sentinel has a code of its own, and is found by it alone.
	seen, count := map[messages.Code]bool{}, 0
	for _, sentinel := range sentinels() {
		e, ok := sentinel.(*messages.Error)
		if !ok || e.Reason != "" {
			continue
		}
		require.False(t, seen[e.Code], e.Code)
		count++
		seen[e.Code] = true
		for _, other := range sentinels() {
			if o, ok := other.(*messages.Error); ok && o.Reason == "" {
				require.Equal(t, e.Code == o.Code, errors.Is(sentinel, other))
			}
		}
	}
	require.Len(t, seen, count)
}

func TestAsErrorTypesEverything(t *testing.T) {
	require.Nil(t, messages.AsError(nil))
	require.Empty(t, messages.CodeOf(nil))
	for err, want := range map[error]messages.Code{
		context.DeadlineExceeded: messages.CodeDeadlineExceeded, context.Canceled: messages.CodeCanceled,
		fs.ErrNotExist: messages.CodeInternal, messages.ErrHeld: messages.CodeHeld,
	} {
		require.Equal(t, want, messages.CodeOf(fmt.Errorf("x: %w", err)))
		require.ErrorIs(t, messages.AsError(err), err)
	}
}

// A document that is no error is refused, and never panics.
func FuzzErrorDocument(f *testing.F) {
	f.Add([]byte(`{"code":"held","retry_after_ms":5,"lease":{"epoch":1}}`))
	f.Add([]byte(`{"code":""}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var e messages.Error
		if err := e.UnmarshalJSON(data); err != nil {
			return
		}
		require.NotEmpty(t, e.Code)
		again, err := json.Marshal(&e)
		require.NoError(t, err)
		var back messages.Error
		require.NoError(t, json.Unmarshal(again, &back))
		require.Equal(t, e.Code, back.Code)
	})
}
