package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A setting of the file is the text that stands there: what YAML takes for a number, a boolean or anything else is no other text.
func TestQ4_TheFileSaysWhatItSays(t *testing.T) {
	for _, text := range []string{"0x1F", "1.10", "007", "1e3", "1_000", "0o17", "0b11", "+12", "True", "false", ".inf", "2026-01-01", "yes"} {
		for _, spelled := range []string{text, text + " # a comment", "&a " + text, "!!str " + text, "'" + text + "'", `"` + text + `"`} {
			f, err := parse("node.yaml", []byte("node_name: "+spelled+"\norgs: {"+text+": {key_file: "+text+"}}\n"))
			require.NoError(t, err, spelled)
			require.Equal(t, map[string]any{"node_name": text, "orgs": map[string]any{text: text}}, f.values, spelled)
		}
	}
	for _, bad := range []string{"orgs: [a]", "orgs: {a: b}", "orgs: {a: {key_file: [x]}}", "orgs: {a: {key_file: x, y: z}}", "orgs: 1", "a: 1\n---\nb: 2\n", "node_name: [0x1F]"} {
		_, err := parse("node.yaml", []byte(bad))
		require.Error(t, err, bad)
	}
}
