package messages_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
)

func TestCanonicalJSON(t *testing.T) {
	for _, same := range [][]string{
		{`{}`, ` { } `},
		{`[]`, "[\n]\t"},
		{`null`, ` null `},
		{`{"a":1,"b":[true,null,"x"]}`, `{"b":[true , null,"x"], "a" : 1 }`, `{"b":[true,null,"\u0078"],"\u0061":1.0}`, `{"a":2,"b":[true,null,"x"],"a":10e-1}`},
		{`0`, `-0`, `0.0`, `0e5`, `-0.00E-7`},
		{`100`, `1e2`, `100.0`, `1E+2`, `0.1e3`, `1000e-1`},
		{`-12.5`, `-125e-1`, `-12.50`},
		{`"ü<\"\\\n\u001f/"`, `"\u00fc\u003c\u0022\u005c\u000a\u001F\/"`},
		{`"😀"`, `"\ud83d\ude00"`},
		{`[{"a":{"c":[],"b":{}}},[[]]]`, `[ {"a":{"b":{} ,"c":[ ]}},[[ ]]]`},
		{`1e9223372036854775808`, ` 1e9223372036854775808`},
	} {
		for _, other := range same[1:] {
			require.Equal(t, string(messages.CanonicalJSON([]byte(same[0]))), string(messages.CanonicalJSON([]byte(other))), "%s and %s", same[0], other)
		}
	}
	seen := map[string]string{}
	for _, different := range []string{`{}`, `[]`, `null`, `0`, `""`, `"0"`, `"null"`, `false`, `true`, `1`, `-1`, `10`, `0.1`, `9007199254740992`, `9007199254740993`, `9007199254740992.1`,
		`1e400`, `1e401`, `{"a":null}`, `{"b":null}`, `{"a":{}}`, `[null]`, `[[null]]`, `[1,2]`, `[2,1]`, `[12]`, `"a"`, `"A"`, `"\n"`, `"\\n"`, `"\""`, `{"a":1,"b":2}`, `{"a":2,"b":1}`,
		`1e9223372036854775808`, `1e9223372036854775809`, `"é"`, `"e\u0301"`} {
		form := string(messages.CanonicalJSON([]byte(different)))
		require.NotContains(t, seen, form, "%s is %s", different, seen[form])
		seen[form] = different
	}
}

// What is the same for the form is the same for a decoder of JSON, and its own form is itself a document with that value.
func FuzzCanonicalJSON(f *testing.F) {
	f.Add([]byte(`{"b":[1e1, "\u00fc\\"],"a":{"x":-0.50,"x":null}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) || messages.CheckText(data, 100) != nil {
			return
		}
		form := messages.CanonicalJSON(data)
		require.True(t, json.Valid(form), "%s", form)
		require.Equal(t, string(form), string(messages.CanonicalJSON(form)))
		require.Equal(t, plain(t, data), plain(t, form))
		var spaced bytes.Buffer
		require.NoError(t, json.Indent(&spaced, data, " ", "\t"))
		require.Equal(t, string(form), string(messages.CanonicalJSON(spaced.Bytes())))
	})
}

func plain(t *testing.T, data []byte) (v any) {
	if err := json.Unmarshal(data, &v); err != nil {
		require.ErrorContains(t, err, "cannot unmarshal number") // beyond a float64
		return nil
	}
	return v
}
