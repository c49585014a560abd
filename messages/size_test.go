package messages

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Whatever passes the limit fits into a message, and what is refused would nearly not have.
func TestSize_IsThatOfTheMessageAtMost(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "\x00\x01\n", `""\\`, "\u2028\u2029", "\xff\xfe", strings.Repeat("<&>", 100), "𝄞𝄞"}))
	raw := rapid.Custom(func(t *rapid.T) json.RawMessage {
		data, err := EncodeWire(text.Draw(t, "value"))
		require.NoError(t, err)
		return data
	})
	zone := time.FixedZone("far", -11*3600-1800)
	rapid.Check(t, func(t *rapid.T) {
		event := func() Event {
			return Event{Kind: text.Draw(t, "kind"), Actor: text.Draw(t, "actor"), SubjectID: text.Draw(t, "subject"), RunID: text.Draw(t, "run"),
				IdemKey: text.Draw(t, "key"), Payload: raw.Draw(t, "payload"), Time: new(time.Date(2026, 11, 29, 20, 59, 59, 123456789, zone))}
		}
		r := Request{Version: WireVersion, Action: ActionSnapshot, Key: Key{Org: "acme", Tenant: "t-3129611eac9be1d5994a2b216b06ed27"}, TimeoutMS: 1 << 62,
			Seen: Seen{1 << 62, 1 << 62}, Command: text.Draw(t, "command"), IdemKey: text.Draw(t, "idem"), SQL: text.Draw(t, "sql"), Input: raw.Draw(t, "input"),
			After: 1 << 62, Limit: 1 << 62, Avoid: rapid.SliceOfN(text, 0, 5).Draw(t, "avoid"), Args: rapid.SliceOfN(raw, 0, 5).Draw(t, "args")}
		for range rapid.IntRange(0, 5).Draw(t, "events") {
			e := event()
			alone, err := EncodeWire(e)
			require.NoError(t, err)
			require.LessOrEqual(t, len(alone)+1, e.Size())
			r.Events = append(r.Events, e)
		}
		data, err := EncodeWire(r)
		require.NoError(t, err)
		require.LessOrEqual(t, len(data), r.Size()+MaxMessageBytes-MaxRequestBytes)
		require.LessOrEqual(t, r.Size(), len(data)+len(r.Events)*eventFrame)
	})
}

func TestValidate_RefusesARequestThatIsTooLargeToTravel(t *testing.T) {
	r := Request{Version: WireVersion, Action: ActionAppend, Key: Key{Org: "acme", Tenant: "t-3129611eac9be1d5994a2b216b06ed27"}}
	payload := func(n int) json.RawMessage { return json.RawMessage(`"` + strings.Repeat("x", n-2) + `"`) }
	for range 7 {
		r.Events = append(r.Events, Event{Kind: "k", Payload: payload(MaxPayloadBytes)})
	}
	last := Event{Kind: "k"}
	last.Payload = payload(MaxRequestBytes - r.Size() - last.Size())
	r.Events = append(r.Events, last)
	require.Equal(t, MaxRequestBytes, r.Size())
	require.NoError(t, r.Validate())
	data, err := EncodeWire(r)
	require.NoError(t, err)
	require.LessOrEqual(t, len(data), MaxMessageBytes)
	r.Events[7].Kind = "kk"
	require.ErrorIs(t, r.Validate(), ErrTooLarge)
	require.ErrorContains(t, r.Validate(), "at most 8323072")
	large := Request{Version: WireVersion, Action: ActionCall, Key: r.Key, Command: "c", Input: payload(MaxRequestBytes)}
	require.ErrorIs(t, large.Validate(), ErrTooLarge)
}
