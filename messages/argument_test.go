package messages_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
)

// seconds is a float of an application's own, spelled one that says itself how it is written.
type seconds float64

type spelled float64

func (spelled) MarshalText() ([]byte, error) { return []byte("a float"), nil }

// An argument arrives with the type that it was given: an integer is not a float, a float is not an integer.
func TestArgument_ThereAndBack(t *testing.T) {
	f := 8.0
	for name, tc := range map[string]struct {
		in   any
		text string
		out  any
	}{
		"nil":                    {nil, `null`, nil},
		"a boolean":              {true, `true`, true},
		"an integer":             {100, `100`, int64(100)},
		"the smallest integer":   {int64(math.MinInt64), `-9223372036854775808`, int64(math.MinInt64)},
		"a float":                {0.5, `0.5`, 0.5},
		"a whole float":          {float64(100), `100.0`, float64(100)},
		"a negative whole float": {float64(-3), `-3.0`, float64(-3)},
		"zero":                   {float64(0), `0.0`, float64(0)},
		"a large whole float":    {float64(1 << 53), `9007199254740992.0`, float64(1 << 53)},
		"over an integer":        {1e20, `100000000000000000000.0`, 1e20},
		"with an exponent":       {1e21, `1e+21`, 1e21},
		"a small float":          {1e-7, `1e-7`, 1e-7},
		"a float32":              {float32(2), `2.0`, float64(2)},
		"a float's own type":     {seconds(3), `3.0`, float64(3)},
		"a pointer":              {&f, `8.0`, float64(8)},
		"a nil pointer":          {(*float64)(nil), `null`, nil},
		"nil bytes":              {[]byte(nil), `null`, nil},
		"the largest integer":    {int64(math.MaxInt64), `9223372036854775807`, int64(math.MaxInt64)},
		"its own words":          {spelled(1), `"a float"`, "a float"},
		"a document's number":    {json.Number("7"), `7`, int64(7)},
		"a string":               {"<1>", `"<1>"`, "<1>"},
		"bytes":                  {[]byte{1}, `{"base64":"AQ=="}`, []byte{1}},
		"a time":                 {time.Unix(0, 0).UTC(), `"1970-01-01T00:00:00Z"`, "1970-01-01T00:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := messages.EncodeArgument(tc.in)
			require.NoError(t, err)
			require.Equal(t, tc.text, string(text))
			data, err := messages.EncodeWire([]json.RawMessage{text})
			require.NoError(t, err)
			var arrived []json.RawMessage
			require.NoError(t, json.Unmarshal(data, &arrived))
			out, err := messages.DecodeArgument(arrived[0])
			require.NoError(t, err)
			require.Equal(t, tc.out, out)
		})
	}
	text, err := messages.EncodeArgument(math.Copysign(0, -1))
	require.NoError(t, err)
	zero, err := messages.DecodeArgument(text)
	require.NoError(t, err)
	require.True(t, math.Signbit(zero.(float64)), "the sign of a zero")
}

func TestArgument_RefusesWhatSQLiteCannotHold(t *testing.T) {
	for name, v := range map[string]any{"NaN": math.NaN(), "infinite": math.Inf(-1), "infinite, of its own type": seconds(math.Inf(1)), "a list": []int{1},
		"a document": map[string]string{"a": "b"}, "a type": func() {}, "a document's number": json.Number("1e999")} {
		_, err := messages.EncodeArgument(v)
		require.ErrorIs(t, err, messages.ErrInvalidArgument, name)
	}
	for _, text := range []string{``, `1 2`, `[1]`, `{}`, `{"base64":1}`, `{"base64":"AQ==","b":1}`, `1e999`, `x`} {
		_, err := messages.DecodeArgument(json.RawMessage(text))
		require.ErrorIs(t, err, messages.ErrInvalidArgument, text)
	}
}

// What SQLite cannot hold as it is must not arrive as something else.
func TestArgument_AnIntegerBeyond64BitsIsRefused(t *testing.T) {
	for _, v := range []any{uint64(1 << 63), uint64(math.MaxUint64), json.Number("-9223372036854775809"), json.Number("100000000000000000000")} {
		_, err := messages.EncodeArgument(v)
		require.ErrorIs(t, err, messages.ErrInvalidArgument, "%v", v)
	}
}
