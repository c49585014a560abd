package cluster

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
)

var epoch = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func member(name string, incarnation int) Info {
	return Info{Owner: messages.NewOwner(name, fmt.Sprint(incarnation)), Name: name, Started: epoch.Add(time.Duration(incarnation) * time.Minute), State: StateServing}
}

func keys(t testing.TB, n int) []messages.Key {
	t.Helper()
	out := make([]messages.Key, n)
	for i := range out {
		id, err := messages.DeriveTenant(make([]byte, 32), "https://idp.example", fmt.Sprint("user-", i))
		require.NoError(t, err)
		out[i] = messages.Key{Org: "acme", Tenant: id}
	}
	return out
}

func TestAMemberIsDroppedWhenItIsNotHeardAndIsOneAgainWhenItIs(t *testing.T) {
	now := epoch
	v := newView(time.Second, 4*time.Second, now)
	require.True(t, v.hear(member("a", 1), now))
	require.False(t, v.hear(member("a", 1), now), "nothing new")
	for range 4 {
		now = now.Add(time.Second)
		require.False(t, v.tick(true, now))
	}
	now = now.Add(time.Second)
	require.True(t, v.tick(true, now))
	require.Len(t, v.members(member("self", 1)), 1)
	require.True(t, v.hear(member("a", 1), now), "no ban")
	require.Len(t, v.members(member("self", 1)), 2)
}

func TestTheLastViewIsKeptWhileNobodyCanBeHeard(t *testing.T) {
	now := epoch
	v := newView(time.Second, 4*time.Second, now)
	v.hear(member("a", 1), now)
	for range 60 {
		now = now.Add(time.Second)
		require.False(t, v.tick(false, now), "cut off")
	}
	require.False(t, v.tick(true, now.Add(4*time.Second)))
	now = now.Add(4*time.Second + time.Hour)
	require.False(t, v.tick(true, now), "this process stood still itself")
	for range 4 {
		now = now.Add(time.Second)
		require.False(t, v.tick(true, now))
	}
	require.True(t, v.tick(true, now.Add(time.Second)), "but then a has had its chance")
}

func TestAMemberThatSaysGoodbyeIsGoneAtOnce(t *testing.T) {
	v := newView(time.Second, 4*time.Second, epoch)
	v.hear(member("a", 1), epoch)
	leaving := member("a", 1)
	leaving.State = StateLeaving
	require.True(t, v.hear(leaving, epoch))
	require.Len(t, v.members(member("self", 1)), 2, "it still serves")
	gone := leaving
	gone.State = stateGone
	require.True(t, v.hear(gone, epoch))
	require.False(t, v.hear(gone, epoch))
	require.Len(t, v.members(member("self", 1)), 1)
}

func TestSuggestionsAreTheSameEverywhereAndMoveAsFewTenantsAsPossible(t *testing.T) {
	all := []Info{member("a", 1), member("b", 1), member("c", 1)}
	before, after := &roster{all: all}, &roster{all: append([]Info{member("d", 1)}, all[2], all[0], all[1])}
	count := map[string]int{}
	moved := 0
	for _, key := range keys(t, 4000) {
		was, is := before.suggest(key, nil, ""), after.suggest(key, nil, "")
		count[is]++
		if was != is {
			moved++
			require.Equal(t, member("d", 1).Owner, is, "only the newcomer gains")
		}
	}
	require.InDelta(t, 1000, moved, 150)
	for owner, n := range count {
		require.InDelta(t, 1000, n, 150, owner)
	}
}

func TestSuggestionsFollowNamesNotIncarnations(t *testing.T) {
	key := keys(t, 1)[0]
	old := &roster{all: []Info{member("a", 1), member("b", 1), member("c", 1)}}
	name := messages.OwnerNode(old.suggest(key, nil, ""))
	// It was restarted; its predecessor was not given up yet.
	both := &roster{all: append([]Info{member(name, 2)}, old.all...)}
	require.Equal(t, member(name, 2).Owner, both.suggest(key, nil, ""))
}

func TestWhoLeavesOrWasAvoidedIsNotSuggested(t *testing.T) {
	key := keys(t, 1)[0]
	r := &roster{all: []Info{member("a", 1), member("b", 1)}}
	first := r.suggest(key, nil, "")
	second := r.suggest(key, []string{first}, "")
	require.NotEqual(t, first, second)
	require.Equal(t, first, r.suggest(key, []string{first, second}, ""), "rather one that did not answer than nobody")
	require.Equal(t, second, r.suggest(key, []string{second}, first), "a member that has begun to leave does not suggest itself")
	require.Empty(t, (&roster{all: r.all[:1]}).suggest(key, nil, r.all[0].Owner))
	for i := range r.all {
		if r.all[i].Owner == first {
			r.all[i].State = StateLeaving
		}
	}
	require.Equal(t, second, r.suggest(key, nil, ""))
	for i := range r.all {
		r.all[i].State = StateLeaving
	}
	require.Empty(t, r.suggest(key, nil, ""))
	require.True(t, r.live(first), "it is still asked for what it serves")
}

func TestAClientsDoubtDoesNotCountAgainstAMemberThatIsHeard(t *testing.T) {
	a, b := member("a", 1), member("b", 1)
	r := &roster{self: b.Owner, all: []Info{a, b}, heard: map[string]time.Time{a.Owner: epoch}}
	require.False(t, r.shunned(a.Owner, nil, epoch.Add(time.Hour)), "nobody doubts it")
	require.False(t, r.shunned(a.Owner, []string{a.Owner}, epoch))
	require.True(t, r.shunned(a.Owner, []string{a.Owner}, epoch.Add(1)))
	require.False(t, r.shunned(b.Owner, []string{b.Owner}, epoch.Add(time.Hour)), "this member knows that it lives")
	require.True(t, r.shunned("nobody", []string{"nobody"}, epoch))
}
