package ledgeractor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

const maxImage = 1 << 20

// blob is a migration and a command that store a value of 100 kB.
func blobs(c *ledgeractor.Config) {
	table(c)
	c.Limits.MaxImageBytes = maxImage
	c.Commands = map[string]ledgeractor.Command{"store": func(ctx context.Context, tx *ledgeractor.Tx, _ json.RawMessage) (any, error) {
		_, err := tx.ExecContext(ctx, "INSERT INTO notes (body) VALUES (?)", strings.Repeat("x", 100_000))
		return nil, err
	}}
}

// TestK5_WhatCannotBeCopiedIsRefused fills ledgers in every way there is. What was acknowledged is in an image, what was not
// is not, and there is always an image.
func TestK5_WhatCannotBeCopiedIsRefused(t *testing.T) {
	big := messages.Event{Kind: "big", Payload: payload(`"%s"`, strings.Repeat("x", 100_000))}
	insert := func(l *ledger) func(*ledgeractor.Tx) error {
		return func(tx *ledgeractor.Tx) error {
			_, err := tx.ExecContext(tx.Context(), "INSERT INTO notes (body) VALUES (?)", strings.Repeat("x", 100_000))
			return err
		}
	}
	for name, fill := range map[string]func(l *ledger, i int) (rows int64, err error){
		"append": func(l *ledger, i int) (int64, error) {
			_, err := l.Append(t.Context(), []messages.Event{big})
			return 1, err
		},
		"append with a key": func(l *ledger, i int) (int64, error) {
			e := big
			e.IdemKey = fmt.Sprint(i)
			_, err := l.Append(t.Context(), []messages.Event{e})
			return 1, err
		},
		"append two": func(l *ledger, i int) (int64, error) {
			_, err := l.Append(t.Context(), []messages.Event{big, big})
			return 2, err
		},
		"run": func(l *ledger, i int) (int64, error) { return 1, l.Run(t.Context(), insert(l)) },
		"run that appends": func(l *ledger, i int) (int64, error) {
			return 1, l.Run(t.Context(), func(tx *ledgeractor.Tx) error { _, err := tx.Append(tx.Context(), big); return err })
		},
		"call": func(l *ledger, i int) (int64, error) { _, err := l.Call(t.Context(), "store", nil); return 1, err },
		"call with a key": func(l *ledger, i int) (int64, error) {
			_, _, err := l.CallOnce(t.Context(), "store", fmt.Sprint(i), nil)
			return 1, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := start(t, blobs)
			stored, refused := int64(0), 0
			for i := range 30 {
				rows, err := fill(l, i)
				if err == nil {
					stored += rows
				} else {
					requireCode(t, err, messages.CodeTooLarge)
					refused++
				}
			}
			require.Greater(t, stored, int64(6))
			require.Greater(t, refused, 10)
			image, err := l.Cut(t.Context())
			require.NoError(t, err)
			require.LessOrEqual(t, len(image.Bytes), maxImage)
			require.Equal(t, l.Version(), image.Version)
			var rows int64
			require.NoError(t, raw(t, write(t, image.Bytes)).QueryRow("SELECT (SELECT count(*) FROM events) + (SELECT count(*) FROM notes)").Scan(&rows))
			require.Equal(t, stored, rows, "all that was acknowledged, and nothing that was refused")

			l.append("a small one still fits")
			require.NoError(t, l.Run(t.Context(), func(tx *ledgeractor.Tx) error {
				_, err := tx.ExecContext(tx.Context(), "DELETE FROM notes")
				return err
			}), "deleting needs no room")
			if strings.HasPrefix(name, "call") || name == "run" {
				_, err := fill(l, 1000)
				require.NoError(t, err, "what was deleted made room")
			}
		})
	}
}

func TestK5_OneOfABatchIsRefusedAlone(t *testing.T) {
	l := start(t, blobs)
	release := l.hold()
	results := make(chan error, 40)
	send := func(e messages.Event) {
		l.taking(1, func() {
			_, err := l.Append(context.Background(), []messages.Event{e})
			results <- err
		})
	}
	for range 20 {
		send(messages.Event{Kind: "small"})
		send(messages.Event{Kind: "big", Payload: payload(`"%s"`, strings.Repeat("x", 100_000))})
	}
	release()
	refused := 0
	for range 40 {
		if err := <-results; err != nil {
			requireCode(t, err, messages.CodeTooLarge)
			refused++
		}
	}
	require.Greater(t, refused, 8)
	require.EqualValues(t, 20, l.count("SELECT count(*) FROM events WHERE kind = 'small'"))
	require.EqualValues(t, 20-refused, l.count("SELECT count(*) FROM events WHERE kind = 'big'"))
	image, err := l.Cut(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 40-refused, image.Events)
}

func TestK5_AMigrationThatMakesALedgerTooLargeFailsAndChangesNothing(t *testing.T) {
	l := start(t, blobs)
	l.append("before")
	l.stop()
	next := launch(t, at(l.path), blobs, func(c *ledgeractor.Config) {
		c.Migrations = append(c.Migrations, ledgeractor.Migration{Version: 2, Name: "grow", SQL: "INSERT INTO notes (body) SELECT hex(zeroblob(600000))"})
	})
	requireCode(t, (<-next.opened).Err, messages.CodeTooLarge)
	next.stop()
	again := start(t, at(l.path), blobs)
	require.Zero(t, again.count("SELECT count(*) FROM notes"))
	require.Equal(t, []string{"before"}, again.kinds())
}

// A ledger may be over the limit when it is opened: the limit was larger where it was written.
func TestK5_ALedgerOverTheLimitIsReadAndNotWritten(t *testing.T) {
	l := start(t, table)
	for range 20 {
		_, err := l.Append(t.Context(), []messages.Event{{Kind: "big", IdemKey: "", Payload: payload(`"%s"`, strings.Repeat("x", 100_000))}})
		require.NoError(t, err)
	}
	_, err := l.Append(t.Context(), keyed("known", "k"))
	require.NoError(t, err)
	l.stop()
	small := start(t, at(l.path), blobs)
	require.EqualValues(t, 21, small.count("SELECT count(*) FROM events"))
	_, err = small.Append(t.Context(), event("x"))
	requireCode(t, err, messages.CodeTooLarge)
	requireCode(t, small.Run(t.Context(), func(tx *ledgeractor.Tx) error {
		_, err := tx.ExecContext(tx.Context(), "INSERT INTO notes (body) VALUES ('x')")
		return err
	}), messages.CodeTooLarge)
	out, err := small.Append(t.Context(), keyed("known", "k"))
	require.NoError(t, err)
	require.True(t, out[0].Duplicate, "what is there already is not written")
	require.Zero(t, small.Version())
}
