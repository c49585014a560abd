package messages_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
)

// What an application has written as JSON arrives as it was, byte for byte.
func TestEncodeWire_LeavesDocumentsAsTheyAre(t *testing.T) {
	for name, document := range map[string]string{
		"html":            `{"a":"<b>&amp;</b>"}`,
		"line separators": "{\"a\":\"\u2028\u2029\"}",
		"escapes":         `{"a":"\u003c\u2028\ud83d\ude00\/"}`,
		"astral":          `"😀"`,
		"numbers":         `[100.0,1e2,-0,9007199254740993,0.10]`,
		"names twice":     `{"b":1,"a":2,"b":3}`,
	} {
		t.Run(name, func(t *testing.T) {
			want := messages.Request{Version: messages.WireVersion, Action: messages.ActionAppend, Events: []messages.Event{{Kind: "<k>&\u2028", Payload: json.RawMessage(document)}},
				Input: json.RawMessage(document), Args: []json.RawMessage{[]byte(document)}}
			data, err := messages.EncodeWire(&want)
			require.NoError(t, err)
			require.Contains(t, string(data), document)
			require.NotEqual(t, byte('\n'), data[len(data)-1])
			var got messages.Request
			require.NoError(t, json.Unmarshal(data, &got))
			require.Equal(t, want, got)

			answer := messages.Reply{Owner: "n#1", Epoch: 1, Output: json.RawMessage(document), Events: []messages.StoredEvent{{Seq: 1, Event: want.Events[0]}},
				Error: &messages.Error{Code: messages.CodeSQL, Message: "near \"<>\": & \u2028"}}
			data, err = messages.EncodeWire(&answer)
			require.NoError(t, err)
			var reply messages.Reply
			require.NoError(t, json.Unmarshal(data, &reply))
			require.Equal(t, answer, reply)
		})
	}
	data, err := messages.EncodeWire(&messages.Request{Input: json.RawMessage("{ \"a\" :\n\t[ 1, \" < \" ] }\n")})
	require.NoError(t, err)
	require.Contains(t, string(data), `"input":{"a":[1," < "]}`, "spaces between the parts are left out")
}

func TestEncodeWire_RefusesWhatIsNoJSON(t *testing.T) {
	for name, v := range map[string]any{"a document": messages.Request{Input: json.RawMessage(`{"a"`)}, "a number": math.NaN(), "a type": func() {}} {
		_, err := messages.EncodeWire(v)
		require.Error(t, err, name)
	}
}
