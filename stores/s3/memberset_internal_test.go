package s3

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A member set does what a map does, and survives its own text.
func TestMemberSet(t *testing.T) {
	numbers := rapid.SliceOfN(rapid.IntRange(1, 40), 0, 30)
	rapid.Check(t, func(t *rapid.T) {
		a, b := numbers.Draw(t, "a"), numbers.Draw(t, "b")
		want := func(keep func(n int) bool) []int {
			set := map[int]bool{}
			for n := 1; n <= 40; n++ {
				if keep(n) {
					set[n] = true
				}
			}
			return slices.Sorted(maps.Keys(set))
		}
		check := func(s memberSet, keep func(n int) bool) {
			t.Helper()
			require.Equal(t, want(keep), want(s.has))
			require.Equal(t, len(want(keep)), s.count())
			text, err := s.MarshalText()
			require.NoError(t, err)
			var again memberSet
			require.NoError(t, again.UnmarshalText(text))
			require.Equal(t, s, again)
		}
		inA := func(n int) bool { return slices.Contains(a, n) }
		inB := func(n int) bool { return slices.Contains(b, n) }
		check(membersOf(a...), inA)
		check(membersOf(a...).union(membersOf(b...)), func(n int) bool { return inA(n) || inB(n) })
		check(membersOf(a...).minus(membersOf(b...)), func(n int) bool { return inA(n) && !inB(n) })
	})
	for _, bad := range []string{"0", "-1", "1-", "3-2", "1,1", "2,1", "1-3,4", "1,,2", "x", "99999999999", "1;2"} {
		var s memberSet
		require.Error(t, s.UnmarshalText([]byte(bad)), bad)
	}
}

// Renewals and revocations against a plain table of members.
func TestRenewalLogKeepsItsMembers(t *testing.T) {
	type state struct {
		in      uint64
		revoked bool
	}
	rapid.Check(t, func(t *rapid.T) {
		var log *renewalLog
		want := map[int]state{}
		for step := range rapid.IntRange(1, 12).Draw(t, "steps") {
			nonce := "nonce-" + string(rune('a'+step))
			next := newLog("n", int64(step), nonce)
			if log != nil {
				next = log.next(int64(step), nonce)
			}
			members := rapid.SliceOfNDistinct(rapid.IntRange(1, 12), 1, 6, rapid.ID[int]).Draw(t, "members")
			if rapid.Bool().Draw(t, "revoke") {
				next.revoke(membersOf(members...))
				for _, m := range members {
					want[m] = state{want[m].in, true}
				}
			} else {
				members = slices.DeleteFunc(members, func(m int) bool { return want[m].revoked })
				if len(members) > 0 {
					next.renew(10*time.Second, membersOf(members...))
				}
				for _, m := range members {
					want[m] = state{next.Version, false}
				}
			}
			data, err := next.encode()
			require.NoError(t, err)
			log, err = decodeLog("n", data)
			require.NoError(t, err)
			require.Equal(t, next, log)
			for m := 1; m <= 12; m++ {
				g, revoked := log.newest(m)
				require.Equal(t, want[m], state{g.In, revoked})
			}
		}
	})
}
