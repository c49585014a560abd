package ledgeractor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

// lines is a log, one line each.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func logTo(l *lines) func(*ledgeractor.Config) {
	return func(c *ledgeractor.Config) { c.Log = slog.New(slog.NewTextHandler(l, nil)) }
}

// A migration that fails is named, by version and name, with what SQLite said: to the caller, and in full in the log.
func TestQ7_AFailedMigrationNamesItsCause(t *testing.T) {
	for name, tc := range map[string]struct {
		migration    ledgeractor.Migration
		told, logged string
		code         messages.Code
	}{
		"no such table": {ledgeractor.Migration{SQL: "CREATE TABLE a (x); INSERT INTO trips VALUES (1)"}, "no such table", "no such table: trips", messages.CodeSQL},
		"syntax":        {ledgeractor.Migration{SQL: "CREATE TABEL a (x)"}, "syntax error", `near "TABEL": syntax error`, messages.CodeSQL},
		"constraint": {ledgeractor.Migration{SQL: "CREATE TABLE a (x UNIQUE); INSERT INTO a VALUES (1), (1)"}, "UNIQUE constraint failed", "UNIQUE constraint failed: a.x",
			messages.CodeSQL},
		"its own": {ledgeractor.Migration{Apply: func(context.Context, *ledgeractor.Tx) error { return errors.New("the sky fell") }}, "application code failed",
			"the sky fell", messages.CodeCommandFailed},
	} {
		t.Run(name, func(t *testing.T) {
			var log lines
			m := tc.migration
			m.Version, m.Name = 3, "add trips"
			l := launch(t, logTo(&log), func(c *ledgeractor.Config) { c.Migrations = []ledgeractor.Migration{m} })
			failed := (<-l.opened).Err
			requireCode(t, failed, tc.code)
			document, err := json.Marshal(failed)
			require.NoError(t, err)
			require.Equal(t, "migration 3 (add trips) failed: "+tc.told, messages.AsError(failed).Message)
			require.NotContains(t, string(document), "trips:")
			_, err = l.Append(t.Context(), event("x"))
			require.Contains(t, err.Error(), "migration 3 (add trips) failed: "+tc.told)
			require.Equal(t, 1, strings.Count(log.String(), testKey.String()), "the key stands once: %s", log.String())
			require.Contains(t, strings.ReplaceAll(log.String(), `\"`, `"`), "migration 3 (add trips) failed: "+tc.told+": "+tc.logged)
		})
	}
}

// A command that fails by itself is named in the log, with its error, and never with what it was called with; one that returns an
// ApplicationError has told its caller, and the log does not get it.
func TestQ7_ACommandThatFailsIsNamed(t *testing.T) {
	var log lines
	told := &messages.ApplicationError{Code: "sold_out", Message: "no rooms for Anna", Details: json.RawMessage(`{"left":0}`)}
	var returned error
	l := start(t, logTo(&log), func(c *ledgeractor.Config) {
		c.Commands = map[string]ledgeractor.Command{"book": func(_ context.Context, tx *ledgeractor.Tx, in json.RawMessage) (any, error) {
			_, err := tx.Append(tx.Context(), messages.Event{Kind: "tried"})
			require.NoError(t, err)
			if returned == nil {
				_, err = tx.ExecContext(tx.Context(), "INSERT INTO rooms VALUES (1)")
				return nil, err
			}
			return nil, returned
		}}
	})
	call := func(err error) error {
		returned = err
		_, _, err = l.CallOnce(t.Context(), "book", "secret-key", json.RawMessage(`{"guest":"secret-guest"}`))
		require.Error(t, err)
		return err
	}
	for _, err := range []error{told, fmt.Errorf("wrapped: %w", told)} {
		failed := call(err)
		requireCode(t, failed, messages.CodeCommandFailed)
		data, err := json.Marshal(failed)
		require.NoError(t, err)
		arrived := &messages.Error{}
		require.NoError(t, json.Unmarshal(data, arrived))
		for _, e := range []error{failed, arrived} {
			var app *messages.ApplicationError
			require.ErrorAs(t, e, &app)
			require.Equal(t, told, app)
		}
	}
	require.Empty(t, log.String())

	requireCode(t, call(errors.New("the sky fell")), messages.CodeCommandFailed)
	require.Contains(t, log.String(), "command=book code=command_failed error=\"application code failed: the sky fell\"")
	requireCode(t, call(nil), messages.CodeSQL)
	require.Contains(t, log.String(), "no such table: rooms")
	// One that cannot travel as it is does not pretend to.
	for _, bad := range []*messages.ApplicationError{{}, {Code: "Sold out"}, {Code: strings.Repeat("x", 65)}, {Code: "x", Message: "\xff"}, {Code: "x", Details: json.RawMessage("{")},
		{Code: "x", Message: strings.Repeat("x", 1025)}, {Code: "x", Details: json.RawMessage(`"` + strings.Repeat("x", 64<<10) + `"`)}} {
		failed := call(bad)
		requireCode(t, failed, messages.CodeCommandFailed)
		require.Nil(t, messages.AsError(failed).Application)
	}
	require.Equal(t, 9, strings.Count(log.String(), "a command failed"))
	require.NotContains(t, log.String(), "secret")
	require.Empty(t, l.kinds(), "its work was rolled back")

	returned = told
	err := l.Run(t.Context(), func(*ledgeractor.Tx) error { return told })
	require.ErrorIs(t, err, messages.ErrCommandFailed)
	var app *messages.ApplicationError
	require.ErrorAs(t, err, &app)
}
