package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/actors/cluster"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

// version makes a member one with the n-th version of an application: n migrations, the last of which is compatible since
// that version (0: with nobody who has it not), and the commands c1 to cn.
func version(n, since int) func(*actors.Config, *cluster.Config) {
	return func(c *actors.Config, _ *cluster.Config) {
		c.Commands = make(map[string]ledgeractor.Command)
		for v := 1; v <= n; v++ {
			m := ledgeractor.Migration{Version: v, Name: "m", SQL: fmt.Sprintf("CREATE TABLE m%d (x)", v)}
			if v == n {
				m.CompatibleSince = since
			}
			c.Migrations = append(c.Migrations, m)
			c.Commands[fmt.Sprint("c", v)] = func(ctx context.Context, tx *ledgeractor.Tx, _ json.RawMessage) (any, error) {
				done, err := tx.Append(ctx, messages.Event{Kind: "called"})
				return done.Seq, err
			}
		}
	}
}

func serving(p *part, want int) func() bool {
	return func() bool { return len(p.node.Serving()) == want }
}

// Half-way through a rolling upgrade: what the new version has opened is neither moved to, nor opened by, the old one, also
// when the new one is gone without a word.
func TestQ5_TenantsGoToMembersThatCanOpenThem(t *testing.T) {
	f := newFleet(t)
	old := f.join("old", quick, version(1, 0))
	f.see(1, old)
	const tenants = 12
	ctx := within(t, 2*time.Minute)
	for i := range tenants {
		_, err := f.tenant(f.client(), i).Append(ctx, messages.Event{Kind: "k", IdemKey: "1"})
		require.NoError(t, err)
	}
	fresh := f.join("fresh", quick, version(2, 0))
	f.see(2, old, fresh)
	require.Eventually(t, func() bool {
		return len(fresh.node.Serving()) > 0 && len(fresh.node.Serving())+len(old.node.Serving()) == tenants
	}, time.Minute, 10*time.Millisecond)
	second := f.join("second", quick, version(2, 0))
	f.see(3, old, fresh, second)
	its := fresh.node.Serving()
	require.NoError(t, fresh.Leave(ctx))
	for _, key := range its {
		require.False(t, old.node.Has(key), "it cannot open it")
		require.Eventually(t, func() bool { return second.node.Serves(key) }, time.Minute, 10*time.Millisecond)
	}
	fresh.stop(t)

	// The old one is asked for what it cannot know to be too new for it, and the tenant goes to who can.
	its = second.node.Serving()
	before := make(map[messages.Key]uint64)
	for _, key := range its {
		lease, _, err := f.leases.Read(ctx, key)
		require.NoError(t, err)
		before[key] = lease.Epoch
	}
	third := f.join("third", quick, version(2, 0))
	f.see(3, old, second, third)
	second.kill()
	for i := range tenants {
		done, err := f.tenant(f.client(), i).Append(ctx, messages.Event{Kind: "k", IdemKey: "2"})
		require.NoError(t, err)
		require.False(t, done.Duplicate)
	}
	for _, key := range its {
		require.False(t, old.node.Serves(key))
		names, err := f.durable.List(ctx, key.Prefix())
		require.NoError(t, err)
		for _, name := range names {
			o, err := messages.ParseObject(name)
			require.NoError(t, err)
			if o.Kind == messages.ObjectBase && o.Epoch > before[key] {
				data, _, err := f.durable.Get(ctx, name, messages.MaxSmallObjectBytes)
				require.NoError(t, err)
				var pinned messages.Base
				require.NoError(t, json.Unmarshal(data, &pinned))
				require.False(t, pinned.Kind == messages.KindBase && pinned.Owner == old.node.Owner(), "pinned by who cannot serve it")
			}
		}
	}
}

// A member whose view is old asks one that cannot: it is refused before anything is handed off, and another one is asked.
func TestQ5_AMoveIsRefusedByWhoCannotOpenTheTenant(t *testing.T) {
	f := newFleet(t)
	fresh := f.join("fresh", version(2, 0))
	ctx := within(t, time.Minute)
	_, err := f.tenant(fresh, 1).Append(ctx, messages.Event{Kind: "k"})
	require.NoError(t, err)
	old := f.join("old", version(1, 0))
	f.see(2, fresh, old)
	err = fresh.MoveTo(ctx, f.key(1), old.node.Owner())
	require.ErrorIs(t, err, messages.ErrIncapable)
	require.Equal(t, 2, messages.AsError(err).Needs)
	require.True(t, fresh.node.Serves(f.key(1)))
	require.Len(t, f.grants(1), 1)
	require.ErrorIs(t, fresh.MoveTo(ctx, f.key(1), "gone#1"), messages.ErrUnavailable, "who went away does not take it either")
	require.True(t, fresh.node.Serves(f.key(1)))
}

// A command goes to a member that knows it; where nobody does, it creates nothing.
func TestQ5_ACommandThatOnlySomeKnow(t *testing.T) {
	f := newFleet(t)
	old, fresh := f.join("old", version(1, 0)), f.join("fresh", version(2, 1))
	f.see(2, old, fresh)
	ctx := within(t, time.Minute)
	for i := range 6 {
		h := f.tenant(f.client(), i)
		for n, command := range []string{"c1", "c2", "c1"} {
			_, duplicate, err := h.CallOnce(ctx, command, fmt.Sprint("k", n), nil)
			require.NoError(t, err, command)
			require.False(t, duplicate)
		}
		require.True(t, fresh.node.Serves(f.key(i)), "the old one does not know c2")
		_, err := h.Call(ctx, "c3", nil)
		require.ErrorIs(t, err, messages.ErrNotFound)
		events, _, err := h.Events(ctx, 0, 10)
		require.NoError(t, err)
		require.Len(t, events, 3)
	}
	_, err := f.tenant(f.client(), 7).Call(ctx, "c3", nil)
	require.ErrorIs(t, err, messages.ErrUnknownTenant)
	require.Empty(t, f.grants(7))
	// Migration 2 is compatible with version 1: the tenants can be rolled back.
	require.NoError(t, fresh.Leave(ctx))
	require.Eventually(t, serving(old, 6), time.Minute, 10*time.Millisecond)
}

// The last member that can open some ledgers does not go unseen: it says so, and keeps them while there is time; who can is
// given them. A member that is too old for what others serve is not ready when it joins.
func TestQ5_ARollbackThatNobodyCanReadIsRefusedLoudly(t *testing.T) {
	f := newFleet(t)
	fresh := f.join("fresh", version(2, 0))
	ctx := within(t, time.Minute)
	for i := range 3 {
		_, err := f.tenant(fresh, i).Append(ctx, messages.Event{Kind: "k"})
		require.NoError(t, err)
	}
	alarmed := func(p *part) bool {
		for _, a := range p.node.Alarms() {
			if a.Err.Code == messages.CodeIncapable && a.Err.Needs == 2 {
				return true
			}
		}
		return false
	}
	require.Eventually(t, func() bool { return fresh.Members()[0].Needs == 2 }, time.Minute, 10*time.Millisecond)
	old := f.join("old", version(1, 0))
	f.see(2, fresh, old)
	require.Eventually(t, func() bool { return alarmed(old) }, time.Minute, 10*time.Millisecond, "it must not replace the others")

	left := make(chan error, 1)
	go func() { left <- fresh.Leave(ctx) }()
	require.Eventually(t, func() bool { return alarmed(fresh) }, time.Minute, 10*time.Millisecond)
	done, err := f.tenant(f.client(), 1).Append(ctx, messages.Event{Kind: "k"})
	require.NoError(t, err, "they are kept, and served")
	require.EqualValues(t, 2, done.Seq)
	again := f.join("again", version(2, 0))
	require.NoError(t, <-left)
	require.False(t, alarmed(fresh))
	require.Eventually(t, serving(again, 3), time.Minute, 10*time.Millisecond)

	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	require.ErrorIs(t, again.Leave(short), messages.ErrIncapable)
	require.True(t, alarmed(again))
	require.Len(t, again.node.Serving(), 3, "the node hands them off: nothing is lost")
}
