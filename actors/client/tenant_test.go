package client_test

import (
	"context"
	"encoding/json"
	"math"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors/client"
	"github.com/leasehold/leasehold/messages"
)

func handle(t *testing.T, s client.Transport) *client.Tenant {
	t.Helper()
	tenant, err := newClient(t, s, client.Config{}).Tenant(tenantKey.Org, tenantKey.Tenant)
	require.NoError(t, err)
	require.Equal(t, tenantKey, tenant.Key())
	return tenant
}

func TestTenant_RefusesMalformedIDs(t *testing.T) {
	c := newClient(t, play(), client.Config{})
	for _, key := range []messages.Key{{Org: "", Tenant: tenantKey.Tenant}, {Org: "acme", Tenant: "t-1"}, {Org: "../x", Tenant: tenantKey.Tenant}} {
		_, err := c.Tenant(key.Org, key.Tenant)
		require.ErrorIs(t, err, messages.ErrInvalidID)
	}
}

// The mark goes with every request, and forward with every answer that tells a state.
func TestTenant_RemembersWhatItHasSeen(t *testing.T) {
	s := play(ok(nodeA, 1, 5), ok(nodeA, 1, 4), ok(nodeA, 1, 9), no(nodeA, messages.Error{Code: messages.CodeSQL}), ok(nodeB, 2, 9),
		with(&messages.Reply{Owner: nodeB, Epoch: 7, Seq: 50}), ok(nodeB, 2, 9))
	s.home = nodeA
	tenant := handle(t, s)
	require.Zero(t, tenant.Seen())
	event := messages.Event{Kind: "k", IdemKey: "1"}
	want := messages.Seen{Epoch: 1, Seq: 5}
	done, err := tenant.Append(t.Context(), event)
	require.NoError(t, err)
	require.EqualValues(t, 5, done.Seq)
	require.Equal(t, want, tenant.Seen())

	_, _, err = tenant.Events(t.Context(), 3, 10) // the second step is older than what was seen, the third is not
	require.NoError(t, err)
	require.Equal(t, want, s.sent[1].req.Seen)
	require.EqualValues(t, 3, s.sent[2].req.After)
	require.Equal(t, 10, s.sent[2].req.Limit)
	want = messages.Seen{Epoch: 1, Seq: 9}
	require.Equal(t, want, tenant.Seen())

	_, err = tenant.Query(t.Context(), "SELECT")
	require.ErrorIs(t, err, messages.ErrSQL)
	require.Equal(t, want, tenant.Seen(), "an error moves nothing")

	_, err = tenant.Query(t.Context(), "SELECT ?, ?, ?", 1, "x", []byte{1})
	require.NoError(t, err)
	require.Equal(t, []json.RawMessage{[]byte("1"), []byte(`"x"`), []byte(`{"base64":"AQ=="}`)}, s.sent[4].req.Args)
	want = messages.Seen{Epoch: 2, Seq: 9}
	require.Equal(t, want, tenant.Seen())

	require.NoError(t, tenant.Handoff(t.Context()))
	require.Equal(t, want, tenant.Seen(), "a handoff tells no state")
	require.Equal(t, want, s.sent[5].req.Seen)

	manifest, err := tenant.Snapshot(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 9, manifest.LastSeq)
}

func TestTenant_AnswersOlderThanWhatWasSeenAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(is(nodeB), ok(nodeB, 2, 9), ok(nodeB, 2, 8), is(nodeA), ok(nodeA, 1, 50), is(nodeC), ok(nodeC, 3, 9))
		tenant := handle(t, s)
		_, err := tenant.Query(t.Context(), "SELECT 1")
		require.NoError(t, err)
		_, err = tenant.Query(t.Context(), "SELECT 1")
		require.NoError(t, err)
		require.Equal(t, []string{"", nodeB, nodeB, "", nodeA, "", nodeC}, s.targets(), "the owner that goes backwards is forgotten")
		require.ElementsMatch(t, []string{nodeA, nodeB}, s.sent[5].req.Avoid)

		s = play(ok(nodeB, 2, 9), ok(nodeA, 1, 50))
		s.home = nodeB
		tenant = handle(t, s)
		_, err = tenant.Query(t.Context(), "SELECT 1")
		require.NoError(t, err)
		_, err = tenant.Append(t.Context(), messages.Event{Kind: "no key"})
		require.ErrorIs(t, err, messages.ErrUnknownOutcome, "it may stand somewhere")
		require.Len(t, s.sent, 2)
		require.Equal(t, messages.Seen{Epoch: 2, Seq: 9}, tenant.Seen())
	})
}

func lost(epoch uint64, seq int64) step {
	return with(&messages.Reply{Owner: nodeB, Epoch: epoch, Seq: seq, Error: &messages.Error{Code: messages.CodeHistoryLost, Epoch: epoch}})
}

// The declared loss is told once, and the next call works on what is left.
func TestH2_LostHistoryIsToldOnce(t *testing.T) {
	s := play(ok(nodeA, 1, 9), lost(2, 5), ok(nodeB, 2, 6))
	s.home = nodeA
	tenant := handle(t, s)
	event := messages.Event{Kind: "k", IdemKey: "1"}
	_, err := tenant.Append(t.Context(), event)
	require.NoError(t, err)
	_, err = tenant.Append(t.Context(), event)
	require.ErrorIs(t, err, messages.ErrHistoryLost)
	require.Len(t, s.sent, 2, "it is not sent again")
	require.Equal(t, messages.Seen{Epoch: 2, Seq: 5}, tenant.Seen())
	_, err = tenant.Append(t.Context(), event)
	require.NoError(t, err)
	require.Equal(t, messages.Seen{Epoch: 2, Seq: 5}, s.sent[2].req.Seen)
	require.Equal(t, messages.Seen{Epoch: 2, Seq: 6}, tenant.Seen())
}

// Within an epoch, too, what the owner has is what is left.
func TestH2_LostHistoryOfTheSameEpoch(t *testing.T) {
	s := play(ok(nodeA, 2, 9), lost(2, 5), ok(nodeA, 2, 5))
	s.home = nodeA
	tenant := handle(t, s)
	_, err := tenant.Query(t.Context(), "SELECT 1")
	require.NoError(t, err)
	_, err = tenant.Query(t.Context(), "SELECT 1")
	require.ErrorIs(t, err, messages.ErrHistoryLost)
	require.Equal(t, messages.Seen{Epoch: 2, Seq: 5}, tenant.Seen())
	_, err = tenant.Query(t.Context(), "SELECT 1")
	require.NoError(t, err, "it is told once")
}

// A snapshot is taken without asking what the caller has seen: it must not hide a loss from the next call.
func TestH2_ASnapshotHidesNoLoss(t *testing.T) {
	s := play(ok(nodeA, 1, 9), ok(nodeB, 2, 5), lost(2, 5))
	s.home = nodeA
	tenant := handle(t, s)
	_, err := tenant.Query(t.Context(), "SELECT 1")
	require.NoError(t, err)
	_, err = tenant.Snapshot(t.Context())
	require.NoError(t, err)
	require.Equal(t, messages.Seen{Epoch: 1, Seq: 9}, tenant.Seen())
	_, err = tenant.Query(t.Context(), "SELECT 1")
	require.ErrorIs(t, err, messages.ErrHistoryLost)
}

// concurrently asks twice at once: the first request is answered after the second.
func concurrently(t *testing.T, first, second step, before ...step) (*client.Tenant, error, error) {
	t.Helper()
	under, release := make(chan struct{}), make(chan struct{})
	slow := func(ctx context.Context, req *messages.Request) (*messages.Reply, error) {
		close(under)
		<-release
		return first(ctx, req)
	}
	s := play(append(before, slow, second)...)
	s.home = nodeA
	tenant := handle(t, s)
	for range before {
		_, err := tenant.Query(t.Context(), "SELECT 1")
		require.NoError(t, err)
	}
	slowly := make(chan error)
	go func() {
		_, err := tenant.Query(t.Context(), "SELECT 1")
		slowly <- err
	}()
	<-under
	_, err2 := tenant.Query(t.Context(), "SELECT 1")
	close(release)
	err1 := <-slowly
	return tenant, err1, err2
}

// Replies that overtake each other do not count as going backwards: what counts is what was seen when the
// request was sent.
func TestTenant_RepliesMayOvertakeEachOther(t *testing.T) {
	tenant, err1, err2 := concurrently(t, ok(nodeA, 1, 6), ok(nodeA, 1, 7), ok(nodeA, 1, 5))
	require.NoError(t, err1)
	require.NoError(t, err2)
	require.Equal(t, messages.Seen{Epoch: 1, Seq: 7}, tenant.Seen(), "but the mark does not go back")
}

func TestH2_ALossThatIsToldLate(t *testing.T) {
	for name, tc := range map[string]struct {
		second step
		want   messages.Seen
	}{
		"after one who was told before":            {lost(2, 6), messages.Seen{Epoch: 2, Seq: 6}},
		"after an answer of the old epoch":         {ok(nodeA, 1, 12), messages.Seen{Epoch: 2, Seq: 5}},
		"after an answer of the same, newer state": {ok(nodeB, 2, 8), messages.Seen{Epoch: 2, Seq: 8}},
	} {
		t.Run(name, func(t *testing.T) {
			tenant, err1, _ := concurrently(t, lost(2, 5), tc.second, ok(nodeA, 1, 9))
			require.ErrorIs(t, err1, messages.ErrHistoryLost)
			require.Equal(t, tc.want, tenant.Seen())
		})
	}
}

// An answer of a later epoch says nothing about what another request has shown meanwhile: the next one asks for that.
func TestH2_AnAnswerThatWasUnderWayHidesNoLoss(t *testing.T) {
	tenant, err1, err2 := concurrently(t, ok(nodeB, 2, 6), ok(nodeA, 1, 9), ok(nodeA, 1, 5))
	require.NoError(t, err1)
	require.NoError(t, err2)
	require.Equal(t, messages.Seen{Epoch: 1, Seq: 9}, tenant.Seen())
}

func TestTenant_Commands(t *testing.T) {
	s := play(with(&messages.Reply{Owner: nodeA, Epoch: 1, Seq: 1, Output: json.RawMessage(`{"n":1}`), Duplicate: true}))
	s.home = nodeA
	tenant := handle(t, s)
	out, err := tenant.Call(t.Context(), "book", json.RawMessage(`{"x":1}`))
	require.NoError(t, err)
	require.JSONEq(t, `{"n":1}`, string(out))
	require.Equal(t, "book", s.sent[0].req.Command)
	require.Empty(t, s.sent[0].req.IdemKey)

	out, duplicate, err := tenant.CallOnce(t.Context(), "book", "key", json.RawMessage(`{"x":1}`))
	require.NoError(t, err)
	require.True(t, duplicate)
	require.JSONEq(t, `{"n":1}`, string(out))
	require.Equal(t, "key", s.sent[1].req.IdemKey)

	_, _, err = tenant.CallOnce(t.Context(), "book", "", nil)
	require.ErrorIs(t, err, messages.ErrInvalidArgument)
	_, err = tenant.Query(t.Context(), "SELECT ?", uint64(math.MaxUint64))
	require.ErrorIs(t, err, messages.ErrInvalidArgument)
	require.Len(t, s.sent, 2)

	for _, order := range []func(context.Context) error{tenant.Handoff, tenant.Abandon, tenant.Forget} {
		require.NoError(t, order(t.Context()))
	}
	require.Equal(t, []messages.Action{messages.ActionHandoff, messages.ActionAbandon, messages.ActionForget},
		[]messages.Action{s.sent[2].req.Action, s.sent[3].req.Action, s.sent[4].req.Action})
}
