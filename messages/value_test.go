package messages_test

import (
	"database/sql"
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
)

// seconds is a float of an application's own.
type seconds float64

// A value arrives with the type that it has in SQLite: an integer is not a float, text is not bytes.
func TestQ4_ValuesThereAndBack(t *testing.T) {
	f, at := 8.0, time.Date(2026, 1, 2, 4, 4, 5, 6789, time.FixedZone("", 3600))
	for name, tc := range map[string]struct {
		in   any
		text string
		out  any
	}{
		"nil":                    {nil, `null`, nil},
		"true":                   {true, `1`, int64(1)},
		"false":                  {false, `0`, int64(0)},
		"an integer":             {100, `100`, int64(100)},
		"the smallest integer":   {int64(math.MinInt64), `-9223372036854775808`, int64(math.MinInt64)},
		"the largest integer":    {int64(math.MaxInt64), `9223372036854775807`, int64(math.MaxInt64)},
		"a float":                {0.5, `0.5`, 0.5},
		"a whole float":          {float64(100), `100.0`, float64(100)},
		"a negative whole float": {float64(-3), `-3.0`, float64(-3)},
		"zero":                   {float64(0), `0.0`, float64(0)},
		"a large whole float":    {float64(1 << 53), `9007199254740992.0`, float64(1 << 53)},
		"over an integer":        {1e20, `100000000000000000000.0`, 1e20},
		"with an exponent":       {1e21, `1e+21`, 1e21},
		"a small float":          {1e-7, `1e-07`, 1e-7},
		"the largest float":      {math.MaxFloat64, `1.7976931348623157e+308`, math.MaxFloat64},
		"the smallest float":     {math.SmallestNonzeroFloat64, `5e-324`, math.SmallestNonzeroFloat64},
		"a float32":              {float32(2), `2.0`, float64(2)},
		"a float's own type":     {seconds(3), `3.0`, float64(3)},
		"infinity":               {seconds(math.Inf(1)), `{"real":"Infinity"}`, math.Inf(1)},
		"minus infinity":         {math.Inf(-1), `{"real":"-Infinity"}`, math.Inf(-1)},
		"NaN":                    {math.NaN(), `null`, nil},
		"a pointer":              {&f, `8.0`, float64(8)},
		"a nil pointer":          {(*float64)(nil), `null`, nil},
		"nil bytes":              {[]byte(nil), `null`, nil},
		"a document's number":    {json.Number("7"), `7`, int64(7)},
		"a document's float":     {json.Number("7.0"), `7.0`, float64(7)},
		"a Valuer":               {sql.NullString{String: "x", Valid: true}, `"x"`, "x"},
		"a string":               {"<1>\u2028ü\n\"", "\"<1>\\u2028ü\\n\\\"\"", "<1>\u2028ü\n\""},
		"an empty string":        {"", `""`, ""},
		"a string with NUL":      {"a\x00b", `{"text_base64":"YQBi"}`, "a\x00b"},
		"a string of no UTF-8":   {"\xff", `{"text_base64":"/w=="}`, "\xff"},
		"half a surrogate pair":  {"\xed\xa0\x80", `{"text_base64":"7aCA"}`, "\xed\xa0\x80"},
		"bytes":                  {[]byte{1}, `{"base64":"AQ=="}`, []byte{1}},
		"no bytes":               {[]byte{}, `{"base64":""}`, []byte{}},
		"a time":                 {at, `"2026-01-02T03:04:05.000006Z"`, "2026-01-02T03:04:05.000006Z"},
		"a time's pointer":       {&at, `"2026-01-02T03:04:05.000006Z"`, "2026-01-02T03:04:05.000006Z"},
	} {
		t.Run(name, func(t *testing.T) {
			stored, err := messages.SQLValue(tc.in)
			require.NoError(t, err)
			require.Equal(t, tc.out, stored)
			text, err := messages.EncodeValue(tc.in)
			require.NoError(t, err)
			require.Equal(t, tc.text, string(text))
			data, err := messages.EncodeWire([]json.RawMessage{text})
			require.NoError(t, err)
			var arrived []json.RawMessage
			require.NoError(t, json.Unmarshal(data, &arrived))
			out, err := messages.DecodeValue(arrived[0])
			require.NoError(t, err)
			require.Equal(t, tc.out, out)
			// In a result it is the same, whichever encoder writes that.
			in := messages.Result{Columns: []string{name}, Rows: [][]any{{stored, stored}}, Truncated: true}
			for _, encode := range []func(any) ([]byte, error){messages.EncodeWire, json.Marshal} {
				data, err := encode(messages.Reply{Result: &in})
				require.NoError(t, err)
				var reply messages.Reply
				require.NoError(t, json.Unmarshal(data, &reply))
				require.Equal(t, in, *reply.Result)
			}
		})
	}
	text, err := messages.EncodeValue(math.Copysign(0, -1))
	require.NoError(t, err)
	require.Equal(t, "-0.0", string(text))
	zero, err := messages.DecodeValue(text)
	require.NoError(t, err)
	require.True(t, math.Signbit(zero.(float64)), "the sign of a zero")
	for text, want := range map[string]any{`true`: int64(1), `false`: int64(0), ` 1 `: int64(1), `{ "base64" : "AQ==" }`: []byte{1}} {
		out, err := messages.DecodeValue(json.RawMessage(text))
		require.NoError(t, err)
		require.Equal(t, want, out)
	}
	empty, err := json.Marshal(messages.Result{})
	require.NoError(t, err)
	require.Equal(t, `{"columns":[],"rows":[]}`, string(empty))
}

// What SQLite cannot hold as it is must not arrive as something else.
func TestQ4_ValuesThatSQLiteCannotHold(t *testing.T) {
	for name, v := range map[string]any{"a list": []int{1}, "a document": map[string]string{"a": "b"}, "a type": func() {}, "a document's number": json.Number("1e999"),
		"not a number": json.Number("x"), "unsigned": uint64(1 << 63), "the largest": uint64(math.MaxUint64), "below": json.Number("-9223372036854775809"),
		"above": json.Number("100000000000000000000"), "the year 10000": time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -3600)),
		"before the year 0": time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)} {
		_, err := messages.EncodeValue(v)
		require.ErrorIs(t, err, messages.ErrInvalidArgument, name)
		_, err = json.Marshal(messages.Result{Rows: [][]any{{v}}})
		require.ErrorIs(t, err, messages.ErrInvalidArgument, name)
	}
	for _, text := range []string{``, `1 2`, `[1]`, `{}`, `{"base64":1}`, `{"base64":"!"}`, `{"base64":"AQ==","b":1}`, `{"base64":"","real":"Infinity"}`, `{"real":"NaN"}`,
		`{"real":"1"}`, `{"text_base64":null}`, `1e999`, `x`, `9223372036854775808`, "\"\xff\"", `"\u0000"`, `"\ud800"`} {
		_, err := messages.DecodeValue(json.RawMessage(text))
		require.ErrorIs(t, err, messages.ErrInvalidArgument, text)
	}
	var r messages.Result
	require.Error(t, json.Unmarshal([]byte(`{"columns":["a"],"rows":[[[1]]]}`), &r))
}
