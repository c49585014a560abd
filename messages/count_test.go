package messages_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
)

func TestCheckValues(t *testing.T) {
	many := func(n int, one string) string { return strings.TrimSuffix(strings.Repeat(one+",", n), ",") }
	for name, tt := range map[string]struct {
		doc string
		ok  bool
	}{
		"as many as may be":            {`{"args":[` + many(100, "0") + `]}`, true},
		"one more":                     {`{"args":[` + many(101, "0") + `]}`, false},
		"empty objects":                {`{"events":[` + many(101, "{}") + `]}`, false},
		"members":                      {`{` + many(101, `"a":0`) + `}`, false},
		"over two arrays":              {`{"a":[` + many(60, "0") + `],"b":[` + many(60, "0") + `]}`, false},
		"a document that is an array":  {`[` + many(101, "0") + `]`, false},
		"a payload":                    {`{"kind":"k","payload":[` + many(1000, "0") + `]}`, true},
		"payloads of events":           {`{"events":[` + many(50, `{"payload" : {"a":[`+many(1000, "{}")+`]}}`) + `]}`, true},
		"an input":                     {`{"action":"call","input":{"payload":[` + many(1000, "0") + `]}}`, true},
		"an output":                    {`{"output":[` + many(1000, "0") + `]}`, true},
		"after a payload":              {`{"payload":[1,2],"args":[` + many(101, "0") + `]}`, false},
		"a payload that is no array":   {`{"payload":1,"args":[` + many(101, "0") + `]}`, false},
		"a name in a value":            {`{"a":"payload","args":[` + many(101, "0") + `]}`, false},
		"another spelling of the name": {`{"Payload":[` + many(101, "0") + `]}`, false},
		"an escape in the name":        {`{"\"payload":[` + many(101, "0") + `]}`, false},
		"a long name":                  {`{"` + strings.Repeat("x", 1025) + `":0}`, false},
		"a long name in a payload":     {`{"payload":{"` + strings.Repeat("x", 1025) + `":0}}`, true},
		"commas in a string":           {`{"sql":"` + strings.Repeat(",", 1000) + `\\\",` + `"}`, true},
		"cut off in a string":          {`{"sql":"` + strings.Repeat(",", 1000) + `\`, true},
	} {
		t.Run(name, func(t *testing.T) {
			err := messages.CheckValues([]byte(tt.doc), 100)
			if tt.ok {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, messages.ErrTooLarge)
			}
		})
	}
}

// What may be sent is never refused for the number of its values.
func TestCheckValues_TheLargestRequestsPass(t *testing.T) {
	args := make([]json.RawMessage, 32766) // SQLite's own limit
	for i := range args {
		args[i] = json.RawMessage(`{"base64":""}`)
	}
	events := make([]messages.Event, messages.MaxBatchEvents)
	for i := range events {
		events[i] = messages.Event{Kind: "k", Actor: "a", SubjectID: "s", RunID: "r", IdemKey: "i", Payload: json.RawMessage(`{"a":[1,2,3]}`)}
	}
	data, err := messages.EncodeWire(messages.Request{Args: args, Events: events})
	require.NoError(t, err)
	require.NoError(t, messages.CheckValues(data, messages.MaxRequestValues))
}
