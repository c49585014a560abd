package ledgeractor_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

// A rehearsal has the error that the open would have, and leaves the ledger as it was.
func TestQ7_MigrationsAreRehearsed(t *testing.T) {
	broken := errors.New("not today")
	good := ledgeractor.Migration{Version: 1, Name: "good", SQL: "CREATE TABLE trips (id TEXT) STRICT; INSERT INTO trips VALUES ('a')"}
	for name, second := range map[string]ledgeractor.Migration{
		"good":         {SQL: "ALTER TABLE trips ADD COLUMN km INTEGER; UPDATE trips SET km = 12"},
		"bad SQL":      {SQL: "ALTER TABLE no_such ADD COLUMN km INTEGER"},
		"half bad SQL": {SQL: "INSERT INTO trips VALUES ('b'); SELECT no_such()"},
		"an error":     {Apply: func(context.Context, *ledgeractor.Tx) error { return broken }},
		"a panic":      {Apply: func(context.Context, *ledgeractor.Tx) error { panic("no") }},
		"too large":    {SQL: "CREATE TABLE large (x); INSERT INTO large VALUES (zeroblob(2000000))"},
	} {
		t.Run(name, func(t *testing.T) {
			second.Version, second.Name = 2, "second"
			limit := limits(ledgeractor.Limits{MaxImageBytes: 1 << 20})
			with := func(list ...ledgeractor.Migration) func(*ledgeractor.Config) {
				return func(c *ledgeractor.Config) { c.Migrations = list }
			}
			rehearse := func(path string) error {
				cfg := ledgeractor.Config{Path: path, Key: testKey, Epoch: testEpoch, Fence: &switchFence{}}
				limit(&cfg)
				with(good, second)(&cfg)
				return ledgeractor.Rehearse(t.Context(), cfg)
			}
			folder := t.TempDir()
			ofEmpty := rehearse(filepath.Join(folder, "ledger.db"))
			left, err := os.ReadDir(folder)
			require.NoError(t, err)
			require.Empty(t, left, "where there was no ledger there is none")

			l := start(t, limit, with(good))
			l.append("kept")
			l.stop()
			before, err := ledgeractor.Verify(t.Context(), l.path, testKey)
			require.NoError(t, err)
			ofLedger := rehearse(l.path)
			after, err := ledgeractor.Verify(t.Context(), l.path, testKey)
			require.NoError(t, err)
			require.Equal(t, before, after)
			real := launch(t, at(l.path), limit, with(good, second))
			opened := (<-real.opened).Err
			for _, err := range []error{ofEmpty, ofLedger} {
				require.Equal(t, messages.CodeOf(opened), messages.CodeOf(err))
				if opened != nil {
					require.Equal(t, opened.Error(), err.Error())
				}
			}
			require.Equal(t, name == "good", opened == nil, "%v", opened)
		})
	}
}
