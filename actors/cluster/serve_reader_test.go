package cluster

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
)

// Whatever an answer holds, and whatever a server takes, an answer is found, and it does not say less than the truth.
func TestAnAnswerIsMadeToFit(t *testing.T) {
	key := keys(t, 1)[0]
	long := strings.Repeat("x", 2000)
	for name, tt := range map[string]struct {
		limit  int
		action messages.Action
		reply  messages.Reply
		want   messages.Code
		cause  messages.Code
	}{
		"what fits":                    {1000, messages.ActionCall, messages.Reply{Owner: "a", Epoch: 1, Output: json.RawMessage(`1`)}, "", ""},
		"a read":                       {1000, messages.ActionQuery, messages.Reply{Owner: "a", Epoch: 1, Result: &messages.Result{Rows: [][]any{{long}}}}, messages.CodeTooLarge, ""},
		"a write":                      {1000, messages.ActionCall, messages.Reply{Owner: "a", Epoch: 1, Output: json.RawMessage(`"` + long + `"`)}, messages.CodeUnknownOutcome, messages.CodeTooLarge},
		"a snapshot":                   {200, messages.ActionSnapshot, messages.Reply{Owner: "a", Epoch: 1, Manifest: &messages.Manifest{Nonce: long}}, messages.CodeUnknownOutcome, messages.CodeTooLarge},
		"what JSON does not hold":      {1000, messages.ActionQuery, messages.Reply{Owner: "a", Epoch: 1, Result: &messages.Result{Rows: [][]any{{func() {}}}}}, messages.CodeInternal, ""},
		"a failure with a long text":   {1000, messages.ActionCall, messages.Reply{Owner: "a", Epoch: 1, Error: &messages.Error{Code: messages.CodeCommandFailed, Message: long}}, messages.CodeCommandFailed, ""},
		"a doubt with a long text":     {1000, messages.ActionCall, messages.Reply{Owner: "a", Error: &messages.Error{Code: messages.CodeUnknownOutcome, Cause: messages.CodeFenced, Message: long}}, messages.CodeUnknownOutcome, messages.CodeFenced},
		"a server that takes nothing":  {0, messages.ActionCall, messages.Reply{Owner: "a", Epoch: 1, Output: json.RawMessage(`1`)}, messages.CodeUnknownOutcome, messages.CodeTooLarge},
		"a server that takes a little": {10, messages.ActionAppend, messages.Reply{Owner: "a", Error: &messages.Error{Code: messages.CodeHeld, Message: "held"}}, messages.CodeHeld, ""},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := fit(tt.limit, &messages.Request{Action: tt.action, Key: key}, &tt.reply)
			require.NoError(t, err)
			var got messages.Reply
			require.NoError(t, json.Unmarshal(data, &got))
			require.Equal(t, "a", got.Owner)
			if tt.want == "" {
				require.Nil(t, got.Error)
				return
			}
			require.Equal(t, tt.want, got.Error.Code)
			require.Equal(t, tt.cause, got.Error.Cause)
			require.LessOrEqual(t, len(data), max(tt.limit, 300))
		})
	}
}
