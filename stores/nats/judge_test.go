package nats

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/messages"
)

// Whatever is proposed, and whatever the leaders' clocks say, no outcome breaks a rule of B3, and one that is
// refused changes nothing but the time.
func TestB3_NoOutcomeBreaksTheRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rec *record
		ts := int64(1e18)
		for range rapid.IntRange(1, 40).Draw(t, "operations") {
			p := proposal{
				Op:    rapid.SampledFrom([]string{messages.OpAcquire, messages.OpRenew, messages.OpRelease, messages.OpForget}).Draw(t, "op"),
				Owner: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "owner"),
				Epoch: rapid.Uint64Range(0, 6).Draw(t, "epoch"),
				TTL:   time.Duration(rapid.Int64Range(100, 300).Draw(t, "ttl")) * time.Millisecond,
				Prev:  rec,
			}
			ts += rapid.Int64Range(-1e8, 3e8).Draw(t, "step") // back too: a new leader
			after, granted := p.judge(ts)
			if rec == nil {
				require.Equal(t, p.Op == messages.OpAcquire, granted)
				if granted {
					require.Equal(t, record{Owner: p.Owner, Epoch: 1, TTL: p.TTL, End: ts + int64(p.TTL), At: ts}, after)
					rec = &after
				}
				continue
			}
			require.GreaterOrEqual(t, after.At, rec.At, "the store's time goes back")
			require.GreaterOrEqual(t, after.Floor, rec.Floor, "a floor goes down")
			require.LessOrEqual(t, after.Floor, after.Epoch)
			live := max(ts, rec.At) < rec.End
			switch {
			case !granted:
				same := *rec
				same.At = after.At
				require.Equal(t, same, after)
				require.True(t, live == (p.Op == messages.OpAcquire) || p.Owner != rec.Owner || p.Epoch != rec.Epoch)
			case p.Op == messages.OpAcquire:
				require.False(t, live)
				require.Equal(t, rec.Epoch+1, after.Epoch)
				require.Equal(t, rec.Floor, after.Floor)
				require.Equal(t, after.At+int64(p.TTL), after.End)
			default:
				require.True(t, live)
				require.Equal(t, rec.Epoch, after.Epoch)
				require.Equal(t, rec.Owner, after.Owner)
				require.Equal(t, p.Owner, after.Owner)
				if p.Op == messages.OpRenew {
					require.GreaterOrEqual(t, after.End, rec.End, "a renewal took time back")
				}
			}
			rec = &after
		}
	})
}

// A lease ends exactly at its end: one nanosecond before, acquire is refused.
func TestB2_EndsExactlyAtItsEnd(t *testing.T) {
	first, granted := proposal{Op: messages.OpAcquire, Owner: "a", TTL: time.Second}.judge(1000)
	require.True(t, granted)
	next := proposal{Op: messages.OpAcquire, Owner: "b", TTL: time.Second, Prev: &first}
	_, granted = next.judge(first.End - 1)
	require.False(t, granted)
	second, granted := next.judge(first.End)
	require.True(t, granted)
	require.Equal(t, uint64(2), second.Epoch)
	_, granted = proposal{Op: messages.OpRenew, Owner: "a", Epoch: 1, TTL: time.Second, Prev: &first}.judge(first.End)
	require.False(t, granted, "not renewed at its end")
}

// What others write into the bucket never panics, and is no record unless it is whole.
func FuzzParse(f *testing.F) {
	key := messages.Key{Org: "acme", Tenant: "t-3129611eac9be1d5994a2b216b06ed27"}
	n := leaseNames("x")
	good, err := json.Marshal(proposal{Version: version, Op: messages.OpAcquire, Owner: "a", TTL: time.Second, Nonce: "n"})
	require.NoError(f, err)
	header := "NATS/1.0\r\n" + hdrExpectedSeq + ": 4\r\n" + hdrExpectedSubject + ": " + n.key(key) + "\r\n\r\n"
	f.Add(n.grant(key), []byte(header), good, uint64(5))
	f.Add(n.renew(key), []byte("NATS/1.0\r\n\r\n"), []byte("{}"), uint64(1))
	_, prev, ok := n.parse(key, &stored{Subject: n.grant(key), Seq: 5, Header: []byte(header), Data: good})
	require.True(f, ok)
	require.Equal(f, uint64(4), prev)
	f.Fuzz(func(t *testing.T, subject string, header, data []byte, seq uint64) {
		p, prev, ok := n.parse(key, &stored{Subject: subject, Seq: seq, Header: header, Data: data})
		if !ok {
			return
		}
		require.Less(t, prev, seq)
		after, _ := p.judge(int64(seq))
		require.NoError(t, messages.ValidateOwner(after.Owner))
		require.Positive(t, after.Epoch)
	})
}

func FuzzParseManifest(f *testing.F) {
	body, err := manifest{Version: version, Key: "a", Size: 3}.encode([]byte("abc"))
	require.NoError(f, err)
	f.Add(body)
	f.Add([]byte(`{"v":1,"key":"a","size":9,"chunks":2,"chunk":5}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := parseManifest("a", &stored{Data: data})
		if err != nil {
			require.ErrorIs(t, err, messages.ErrCorrupt)
			return
		}
		require.Equal(t, "a", m.Key)
		if m.Chunks == 0 {
			require.Len(t, m.inline, m.Size)
		}
	})
}
