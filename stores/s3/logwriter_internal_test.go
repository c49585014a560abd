package s3

import (
	"context"
	"testing"

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
