package ledgeractor_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

// list returns migrations 1, 2, …, each with what it says of older applications.
func list(since ...int) func(*ledgeractor.Config) {
	return func(c *ledgeractor.Config) {
		c.Migrations = nil
		for i, s := range since {
			c.Migrations = append(c.Migrations, ledgeractor.Migration{Version: i + 1, Name: "m", SQL: fmt.Sprintf("CREATE TABLE m%d (x)", i+1), CompatibleSince: s})
		}
	}
}

// An application that is older than the ledger opens it if all that it lacks says so, and else names what is needed.
func TestQ5_AnOlderApplicationOpensWhatIsCompatible(t *testing.T) {
	for _, c := range []struct {
		ran, old []int
		needs    int
		opens    bool
	}{
		{[]int{0}, nil, 1, false},
		{[]int{ledgeractor.AnyApplication}, nil, 0, true},
		{[]int{0, 1}, []int{0}, 1, true},
		{[]int{0, 0}, []int{0}, 2, false},
		{[]int{0, 1, 2}, []int{0}, 2, false}, // expand, and contract what version 1 still used
		{[]int{0, 1, 2}, []int{0, 1}, 2, true},
		{[]int{0, 1, 1}, []int{0}, 1, true},
		{[]int{0, 0, 1}, []int{0}, 2, false},
		{[]int{0, 1}, []int{0, 1, 2}, 2, true}, // a newer one, which migrates
	} {
		name := fmt.Sprint(c)
		l := start(t, list(c.ran...))
		l.append("kept")
		l.stop()
		older := launch(t, at(l.path), list(c.old...))
		opened := <-older.opened
		if len(c.old) > len(c.ran) {
			require.NoError(t, opened.Err, name)
			require.Equal(t, c.needs, opened.Needs, name)
			older.stop()
			continue
		}
		if !c.opens {
			requireCode(t, opened.Err, messages.CodeIncapable)
			require.Equal(t, c.needs, messages.AsError(opened.Err).Needs, name)
			older.stop()
			continue
		}
		require.NoError(t, opened.Err, name)
		require.Equal(t, c.needs, opened.Needs, name)
		older.append("by an older application")
		older.stop()
		require.Equal(t, []string{"kept", "by an older application"}, start(t, at(l.path), list(c.ran...)).kinds(), name)
	}
	failed := launch(t, list(0, 3))
	require.Error(t, (<-failed.opened).Err, "compatible since a version that comes later")
}
