package messages_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/planted"
)

func TestEvents(t *testing.T) {
	name := strings.Repeat("x", messages.MaxEventNameBytes)
	for _, ok := range []messages.Event{
		{Kind: "a"},
		{Kind: name, Actor: name, SubjectID: name, RunID: name, IdemKey: name, Payload: []byte(`{"a":[1,"x\"[{",null]}`), Time: new(time.Unix(1, 0))},
		{Kind: "a", Payload: []byte(strings.Repeat("[", messages.MaxPayloadDepth) + strings.Repeat("]", messages.MaxPayloadDepth))},
		{Kind: "a", Payload: []byte(`"` + strings.Repeat("x", messages.MaxPayloadBytes-2) + `"`)},
		{Kind: "a", Payload: []byte(`"` + strings.Repeat(`[`, 200) + `\\"`)},
	} {
		require.NoError(t, ok.Validate())
	}
	for why, bad := range map[string]struct {
		event messages.Event
		code  messages.Code
	}{
		"no kind":          {messages.Event{}, messages.CodeInvalidArgument},
		"a long kind":      {messages.Event{Kind: name + "x"}, messages.CodeTooLarge},
		"a long key":       {messages.Event{Kind: "a", IdemKey: name + "x"}, messages.CodeTooLarge},
		"NUL":              {messages.Event{Kind: "a", Actor: "\x00"}, messages.CodeInvalidArgument},
		"broken UTF-8":     {messages.Event{Kind: "a", SubjectID: "\xff"}, messages.CodeInvalidArgument},
		"no JSON":          {messages.Event{Kind: "a", Payload: []byte(`{"a":`)}, messages.CodeInvalidArgument},
		"two documents":    {messages.Event{Kind: "a", Payload: []byte(`1 2`)}, messages.CodeInvalidArgument},
		"JSON with a byte": {messages.Event{Kind: "a", Payload: []byte("\"\xff\"")}, messages.CodeInvalidArgument},
		"deep":             {messages.Event{Kind: "a", Payload: []byte(strings.Repeat("[", 101) + strings.Repeat("]", 101))}, messages.CodeInvalidArgument},
		"large":            {messages.Event{Kind: "a", Payload: []byte(`"` + strings.Repeat("x", messages.MaxPayloadBytes) + `"`)}, messages.CodeTooLarge},
	} {
		require.Equal(t, bad.code, messages.CodeOf(bad.event.Validate()), why)
	}
}

// An event of the year 1 has its time too, on the wire and after it.
func TestQ4_AStoredEventHasItsTime(t *testing.T) {
	for _, at := range []time.Time{{}, time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)} {
		in := messages.StoredEvent{Seq: 1, Event: messages.Event{Kind: "a", IdemKey: "k", Payload: json.RawMessage(`{"s":"<ü>"}`), Time: &at}}
		data, err := messages.EncodeWire(messages.Reply{Events: []messages.StoredEvent{in}})
		require.NoError(t, err)
		require.Contains(t, string(data), `"time":"`+at.Format(time.RFC3339Nano)+`"`)
		require.Contains(t, string(data), `"payload":{"s":"<ü>"}`)
		var out messages.Reply
		require.NoError(t, json.Unmarshal(data, &out))
		require.Equal(t, in, out.Events[0])
	}
}

// What passes is JSON, and no deeper than allowed, by another way of counting.
func FuzzValidatePayload(f *testing.F) {
	f.Add([]byte(`{"a":["\\\"[",{}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if messages.ValidatePayload(data) != nil || len(data) == 0 {
			return
		}
		var v any
		require.NoError(t, json.Unmarshal(data, &v))
		require.LessOrEqual(t, depth(v), messages.MaxPayloadDepth)
	})
}

func depth(v any) int {
	deepest := 0
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			deepest = max(deepest, depth(e))
		}
	case []any:
		for _, e := range v {
			deepest = max(deepest, depth(e))
		}
	default:
		return 0
	}
	return deepest + 1
}

func TestD12_TTLsAndOwners(t *testing.T) {
	for _, ok := range []time.Duration{100 * time.Millisecond, 101 * time.Millisecond, time.Hour} {
		require.NoError(t, messages.ValidateTTL(ok))
	}
	for _, bad := range []time.Duration{0, -time.Second, time.Millisecond, 99 * time.Millisecond, time.Hour + time.Millisecond, 24 * time.Hour, 100*time.Millisecond + 1} {
		require.ErrorIs(t, messages.ValidateTTL(bad), messages.ErrOutOfRange, "%v", bad)
	}
	for _, ok := range []string{"a", "node a#1", "ü", strings.Repeat("x", messages.MaxOwnerBytes)} {
		require.NoError(t, messages.ValidateOwner(ok))
	}
	for _, bad := range []string{"", " ", " a", "a ", "a\n", "\x00", "a\x7f", "\xff", strings.Repeat("x", messages.MaxOwnerBytes+1)} {
		require.ErrorIs(t, messages.ValidateOwner(bad), messages.ErrOutOfRange, "%q", bad)
	}
}

func TestD14_OwnersNameTheirNode(t *testing.T) {
	require.NotEqual(t, messages.NewOwner("a", "1"), messages.NewOwner("a", "2"))
	require.Equal(t, "a", messages.OwnerNode(messages.NewOwner("a", "1")))
	require.Equal(t, "a#b", messages.OwnerNode(messages.NewOwner("a#b", "1")))
	require.Equal(t, "plain", messages.OwnerNode("plain"))
}

func TestPlantedFaultsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range planted.All() {
		require.NotEmpty(t, f.String())
		require.False(t, seen[f.String()], f.String())
		seen[f.String()] = true
		set, err := planted.Parse(f.String())
		require.NoError(t, err)
		require.Equal(t, planted.Of(f), set)
		require.True(t, set.Has(f))
	}
	all, err := planted.Parse(planted.Of(planted.All()...).String())
	require.NoError(t, err)
	require.Equal(t, planted.Of(planted.All()...), all)
	none, err := planted.Parse(" , ")
	require.NoError(t, err)
	require.Zero(t, none)
	_, err = planted.Parse("no-such-fault")
	require.ErrorContains(t, err, "no-such-fault")
}
