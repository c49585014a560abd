package actors_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/messages"
)

// A caller who has seen a state is never answered from an older one, and is told when a crash took what he saw.
func TestH2_ACallerIsToldWhatACrashHasTaken(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start()
		tenant := open(t, n, "u")
		key := tenant.Key()
		ask := func(n *actors.Node, action messages.Action, seen messages.Seen) *messages.Reply {
			t.Helper()
			return n.Do(t.Context(), &messages.Request{Version: messages.WireVersion, Action: action, Key: key, Seen: seen, TimeoutMS: 60_000,
				Events: []messages.Event{{Kind: "k"}}, SQL: "SELECT count(*) FROM events"})
		}
		first := ask(n, messages.ActionAppend, messages.Seen{})
		require.Nil(t, first.Error)
		require.Equal(t, messages.Seen{Epoch: 1, Seq: 1}, first.Seen())
		_, err := tenant.Snapshot(t.Context())
		require.NoError(t, err)
		second := ask(n, messages.ActionAppend, first.Seen()) // no snapshot holds it
		require.Equal(t, messages.Seen{Epoch: 1, Seq: 2}, second.Seen())
		require.NoError(t, n.Abort())
		time.Sleep(ttl) // virtual

		n = f.start()
		lost := ask(n, messages.ActionAppend, second.Seen())
		require.Equal(t, messages.CodeHistoryLost, lost.Error.Code)
		require.Equal(t, messages.Seen{Epoch: 2, Seq: 1}, lost.Seen(), "what there is now")
		require.Nil(t, ask(n, messages.ActionQuery, first.Seen()).Error, "who has seen less has lost nothing")
		query := ask(n, messages.ActionQuery, lost.Seen())
		require.Nil(t, query.Error)
		require.Equal(t, [][]any{{int64(1)}}, query.Result.Rows, "nothing was done")
		require.Equal(t, messages.Seen{Epoch: 2, Seq: 2}, ask(n, messages.ActionAppend, lost.Seen()).Seen())
		// Another event has the seq now that the lost one had: that is not what the caller has seen.
		require.Equal(t, messages.CodeHistoryLost, ask(n, messages.ActionQuery, second.Seen()).Error.Code)
	})
}

// A caller who stays away while the epoch that lost what he saw grows past it, and others follow, is told all the same.
func TestH2_ACallerWhoWasAwayForSeveralEpochsIsToldWhatACrashHasTaken(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start(rarely)
		tenant := open(t, n, "u")
		key := tenant.Key()
		appendKind(t, tenant, "1")
		_, err := tenant.Snapshot(t.Context())
		require.NoError(t, err)
		for range 3 {
			appendKind(t, tenant, "lost")
		}
		require.NoError(t, n.Abort())
		time.Sleep(ttl) // virtual

		n = f.start(rarely)
		tenant = open(t, n, "u")
		for range 9 {
			appendKind(t, tenant, "2")
		}
		ask := func(seen messages.Seen) messages.Code {
			t.Helper()
			reply := n.Do(t.Context(), &messages.Request{Version: messages.WireVersion, Action: messages.ActionAppend, Key: key, Seen: seen,
				Events: []messages.Event{{Kind: "k"}}})
			require.GreaterOrEqual(t, reply.Seq, int64(10))
			return messages.CodeOf(messages.AsError(reply.Error))
		}
		for epoch := uint64(2); epoch <= 4; epoch++ {
			require.Equal(t, messages.CodeHistoryLost, messages.CodeOf(n.Do(t.Context(), &messages.Request{Version: messages.WireVersion, Action: messages.ActionEvents, Key: key,
				Seen: messages.Seen{Epoch: 1, Seq: 4}}).Error), "epoch %d", epoch)
			require.Empty(t, ask(messages.Seen{Epoch: 1, Seq: 1}), "who has seen less has lost nothing")
			require.Empty(t, ask(messages.Seen{Epoch: 2, Seq: 10}))
			require.NoError(t, n.Shutdown(t.Context()))
			n = f.start(rarely)
		}
	})
}

// An epoch later than the owner's is either one that it has not heard of yet, or one that there never was.
func TestACallerWhoHasSeenALaterEpochIsToldWhetherThereIsOne(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start()
		tenant := open(t, n, "u")
		appendKind(t, tenant, "1")
		ask := func(seen messages.Seen) *messages.Reply {
			t.Helper()
			return n.Do(t.Context(), &messages.Request{Version: messages.WireVersion, Action: messages.ActionAppend, Key: tenant.Key(), Seen: seen,
				Events: []messages.Event{{Kind: "k"}}})
		}
		for _, never := range []messages.Seen{{Epoch: 2}, {Epoch: 1<<64 - 1, Seq: 1<<63 - 1}} {
			reply := ask(never)
			require.Equal(t, messages.CodeHistoryLost, reply.Error.Code)
			require.Equal(t, messages.Seen{Epoch: 1, Seq: 1}, reply.Seen(), "what there is")
		}
		require.Equal(t, []string{"1"}, kinds(t, tenant), "nothing was done")

		f.leases.Down(nil)
		reply := ask(messages.Seen{Epoch: 2})
		require.Equal(t, messages.CodeNotOwner, reply.Error.Code, "nobody can tell")
		require.ErrorIs(t, reply.Error, messages.ErrUnavailable)
		f.leases.Clear()

		// This one does not know yet that it was taken over.
		require.NoError(t, f.leases.Inner().Release(t.Context(), tenant.Key(), n.Owner(), 1))
		_, err := f.leases.Inner().Acquire(t.Context(), tenant.Key(), "node-9#1", time.Minute)
		require.NoError(t, err)
		reply = ask(messages.Seen{Epoch: 2})
		require.Equal(t, messages.CodeNotOwner, reply.Error.Code)
		require.Equal(t, "node-9#1", reply.Error.Owner)
		require.EqualValues(t, 2, reply.Error.Epoch)
		require.Equal(t, messages.CodeHistoryLost, ask(messages.Seen{Epoch: 3}).Error.Code)
	})
}

func TestDoRefusesWhatItCannotDo(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start()
		key := open(t, n, "u").Key()
		good := messages.Request{Version: messages.WireVersion, Action: messages.ActionQuery, Key: key, SQL: "SELECT ?", Args: []json.RawMessage{[]byte("1")}}
		require.Nil(t, n.Do(t.Context(), &good).Error)
		for why, bad := range map[string]struct {
			change func(*messages.Request)
			code   messages.Code
		}{
			"version":   {func(r *messages.Request) { r.Version = 2 }, messages.CodeInvalidArgument},
			"action":    {func(r *messages.Request) { r.Action = "drop" }, messages.CodeInvalidArgument},
			"key":       {func(r *messages.Request) { r.Key.Tenant = "../x" }, messages.CodeInvalidID},
			"avoid":     {func(r *messages.Request) { r.Avoid = make([]string, 65) }, messages.CodeInvalidArgument},
			"argument":  {func(r *messages.Request) { r.Args = []json.RawMessage{[]byte("[")} }, messages.CodeInvalidArgument},
			"sql":       {func(r *messages.Request) { r.SQL = "" }, messages.CodeInvalidArgument},
			"write":     {func(r *messages.Request) { r.SQL, r.Args = "DELETE FROM events", nil }, messages.CodeReadOnly},
			"command":   {func(r *messages.Request) { r.Action, r.Command = messages.ActionCall, "none" }, messages.CodeNotFound},
			"no events": {func(r *messages.Request) { r.Action = messages.ActionAppend }, messages.CodeInvalidArgument},
			"too many": {func(r *messages.Request) {
				r.Action, r.Events = messages.ActionAppend, make([]messages.Event, messages.MaxBatchEvents+1)
			}, messages.CodeTooLarge},
			"after": {func(r *messages.Request) { r.Action, r.After = messages.ActionEvents, -1 }, messages.CodeInvalidArgument},
		} {
			req := good
			bad.change(&req)
			reply := n.Do(t.Context(), &req)
			require.NotNil(t, reply.Error, why)
			require.Equal(t, bad.code, reply.Error.Code, why)
			require.Equal(t, n.Owner(), reply.Owner)
		}
		require.Positive(t, (&messages.Request{TimeoutMS: 1<<63 - 1}).Timeout(), "a time beyond all bounds is a long one")
	})
}
