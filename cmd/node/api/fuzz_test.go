package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
)

// FuzzAppend feeds the decoder of appends. Whatever comes in: a typed refusal, or events that can be
// stored and that read the same when they are written and read again.
func FuzzAppend(f *testing.F) {
	for _, seed := range []string{
		`{"kind":"a"}`, `{"events":[{"kind":"a","payload":{"x":[1,2,{"y":null}]},"time":"2026-01-02T03:04:05Z"}]}`, `{"kind":"\ud83d\ude00"}`,
		`{"kind":"\ud800"}`, `{"kind":"a\u0000"}`, "{\"kind\":\"\xff\"}", `{"KIND":"a"}`, `{"kind":"a"} {}`, `[[[[`, `{"kind":"a","payload":1e400}`, `null`,
	} {
		f.Add([]byte(seed), "")
		f.Add([]byte(seed), "key")
	}
	f.Fuzz(func(t *testing.T, body []byte, key string) {
		var request appendRequest
		if err := decode(body, &request); err != nil {
			requireTyped(t, err)
			return
		}
		header := http.Header{}
		if key != "" {
			header.Set(IdempotencyHeader, key)
		}
		events, err := request.list(header)
		if err != nil {
			requireTyped(t, err)
			return
		}
		for _, e := range events {
			if err := e.Validate(); err != nil {
				requireTyped(t, err)
				continue
			}
			require.True(t, utf8.ValidString(e.Kind+e.Actor+e.SubjectID+e.RunID+e.IdemKey))
			written, err := json.Marshal(e)
			require.NoError(t, err)
			var again appendRequest
			require.NoError(t, decode(written, &again), "%s", written)
			rewritten, err := json.Marshal(again.Event)
			require.NoError(t, err)
			require.Equal(t, string(written), string(rewritten))
		}
	})
}

// FuzzQuery feeds the decoder of queries and of their arguments.
func FuzzQuery(f *testing.F) {
	for _, seed := range []string{
		`{"sql":"SELECT ?","args":[1,1.5,"a",null,true,{"base64":"AAE="}]}`, `{"sql":"","args":[[]]}`, `{"sql":"x","args":[9223372036854775808, -0, 1e999]}`,
		`{"sql":"x","args":[{"base64":"A"}]}`, `{"args":null}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var request queryRequest
		if err := decode(body, &request); err != nil {
			requireTyped(t, err)
			return
		}
		if err := request.check(); err != nil {
			requireTyped(t, err)
			return
		}
		for _, raw := range request.Args {
			value, err := messages.DecodeValue(raw)
			require.NoError(t, err)
			switch value.(type) {
			case nil, string, int64, float64, []byte:
			default:
				t.Fatalf("an argument of type %T", value)
			}
		}
	})
}

func requireTyped(t *testing.T, err error) {
	t.Helper()
	var e *messages.Error
	require.True(t, errors.As(err, &e), "%T", err)
	require.Contains(t, []messages.Code{messages.CodeInvalidArgument, messages.CodeTooLarge}, e.Code)
	require.LessOrEqual(t, len(e.Message), 300)
}
