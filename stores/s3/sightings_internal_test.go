package s3

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
)

func versionOf(seq uint64, nonce string, span time.Duration) *record {
	return &record{SpanMS: span.Milliseconds(), Trail: []entry{{Seq: seq, Nonce: nonce}}}
}

// Which proof counts, and from when. The skew is a second.
func TestTheProofsOfAnEnd(t *testing.T) {
	const span, skew = 10 * time.Second, time.Second
	t0 := processStart
	at := func(s float64) time.Time { return t0.Add(time.Duration(s * float64(time.Second))) }
	seen := func(s sighting) sighting { s.rec = versionOf(1, "n", span); return s }
	for name, tt := range map[string]struct {
		s    sighting
		skew time.Duration
		now  time.Time
		want time.Duration
	}{
		"observed: from the answer":             {seen(sighting{seen: at(1)}), skew, at(4), 7 * time.Second},
		"observed: to the end":                  {seen(sighting{seen: at(1)}), skew, at(11), 0},
		"own: from the sending":                 {seen(sighting{seen: at(1), sent: at(0.5)}), skew, at(4), 6500 * time.Millisecond},
		"age: what the server says, and passed": {seen(sighting{seen: at(4), view: view{received: at(4), age: 8 * time.Second, aged: true}}), skew, at(5), 2 * time.Second},
		"age: not relied on":                    {seen(sighting{seen: at(4), view: view{received: at(4), age: 80 * time.Second, aged: true}}), -1, at(5), 9 * time.Second},
		"age: not said":                         {seen(sighting{seen: at(4), view: view{received: at(4), age: 80 * time.Second}}), skew, at(5), 9 * time.Second},
		"age: a Date that is behind":            {seen(sighting{seen: at(4), view: view{received: at(4), age: -3 * time.Second, aged: true}}), skew, at(5), 9 * time.Second},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tt.want, tt.s.left(tt.now, tt.skew)) })
	}
	released := sighting{view: view{rec: versionOf(1, "n", 0)}, seen: at(1)}
	require.Zero(t, released.left(at(1), skew))
}

func TestSightingsCountFromTheFirstLook(t *testing.T) {
	s := sightings{byKey: map[messages.Key]kept{}}
	key := messages.Key{Org: "acme", Tenant: "t-3129611eac9be1d5994a2b216b06ed27"}
	at := func(n int) time.Time { return processStart.Add(time.Duration(n) * time.Second) }
	look := func(seq uint64, nonce string, when int) sighting {
		return s.note(key, view{rec: versionOf(seq, nonce, time.Minute), received: at(when)}, time.Time{})
	}
	require.Equal(t, at(5), look(1, "a", 5).seen)
	require.Equal(t, at(5), look(1, "a", 9).seen)
	require.Equal(t, at(3), look(1, "a", 3).seen, "an earlier answer that comes in late")
	require.Equal(t, at(12), look(2, "b", 12).seen)
	require.Equal(t, at(13), look(1, "a", 13).seen, "an answer that was overtaken proves nothing")
	require.Equal(t, at(12), look(2, "b", 14).seen, "and changes nothing")

	_, own := s.own(key)
	require.False(t, own)
	s.note(key, view{rec: versionOf(3, "c", time.Minute), received: at(16)}, at(15))
	got := look(3, "c", 20)
	require.Equal(t, at(15), got.sent)
	require.Equal(t, at(16), got.seen)
	_, own = s.own(key)
	require.True(t, own)
	look(4, "d", 21)
	_, own = s.own(key)
	require.False(t, own, "somebody else wrote it")
	s.note(key, view{received: at(22)}, time.Time{})
	require.Equal(t, at(23), look(4, "d", 23).seen, "it was gone in between")
}
