package s3

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
)

// Whoever asks while the bucket is closed is answered, however many there are.
func TestALogWriterAnswersAllOnAClosedBucket(t *testing.T) {
	b := &Bucket{}
	b.ctx, b.cancel = context.WithCancel(t.Context())
	w := &logWriter{leases: &Leases{requester: requester{Bucket: b}}}
	b.cancel()
	for range 3 {
		a := &ask{ctx: t.Context(), answer: make(chan askAnswer, 1)}
		w.ask(a)
		select {
		case got := <-a.answer:
			require.ErrorIs(t, got.err, messages.ErrClosed)
		default:
			t.Fatal("not answered")
		}
	}
}

// Thousands of leases that are opened at once go into as many logs as they need.
func TestALogIsFullWithTheMembersThatAreComing(t *testing.T) {
	s := newMemberships(&Leases{})
	full, other := &logWriter{members: map[int]*membership{}}, &logWriter{members: map[int]*membership{}}
	s.writers = []*logWriter{full, other}
	for range maxMembers {
		w, _, _ := s.room()
		require.Same(t, full, w)
	}
	w, member, _ := s.room()
	require.Same(t, other, w)
	require.Equal(t, 1, member)
	full.came()
	w, member, _ = s.room()
	require.Same(t, full, w)
	require.Equal(t, maxMembers+1, member, "a number is used once")
}

// A renewal and the revocation of one member that are asked for together: the revocation goes first, and the lease by its
// record. And what nobody needs any more is left out.
func TestAVersionRenewsNobodyThatItRevokes(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	w := &logWriter{log: newLog("n", 1, "a"), members: map[int]*membership{}, sent: map[uint64]time.Time{}}
	var asks []*ask
	for n := 1; n <= 4; n++ {
		m := &membership{in: w, member: n, ttl: time.Minute, sent: start}
		w.add(m)
		asks = append(asks, &ask{ctx: t.Context(), of: m, answer: make(chan askAnswer, 1)})
	}
	revoke := &ask{ctx: t.Context(), revoke: &revocation{member: 2}, answer: make(chan askAnswer, 1)}
	next := w.log.next(2, "b")
	left, over := w.fill(next, append(asks, revoke), start)
	require.Empty(t, over)
	require.ElementsMatch(t, []*ask{asks[0], asks[2], asks[3], revoke}, left)
	require.True(t, (<-asks[1].answer).byRecord)
	require.Equal(t, []group{{In: 2, AtMS: 2, TTLMS: 60_000, Members: membersOf(1, 3, 4)}}, next.Standing)
	require.Equal(t, []group{{AtMS: 2, Members: membersOf(2)}}, next.Revoked)
	w.sent[2] = start
	w.took(next, "etag")

	w.drop(asks[2].of)                  // its record has gone on
	later := start.Add(2 * time.Minute) // and a minute after the end of the fourth, which is not renewed
	w.members[1].sent = later
	w.sent[2] = later
	again := w.log.next(3, "c")
	left, over = w.fill(again, asks[:1], later.Add(time.Second))
	require.Len(t, left, 1)
	var gone []int
	for _, m := range over {
		gone = append(gone, m.member)
	}
	require.ElementsMatch(t, []int{2, 4}, gone)
	require.Equal(t, []group{{In: 3, AtMS: 3, TTLMS: 60_000, Members: membersOf(1)}}, again.Standing)
	require.Equal(t, []group{{AtMS: 2, Members: membersOf(2)}}, again.Revoked, "its record may name it yet")
}
