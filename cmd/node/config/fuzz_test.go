package config

import (
	"slices"
	"testing"
)

// FuzzFile feeds the YAML decoder: a file is refused, or sets nothing but known settings.
func FuzzFile(f *testing.F) {
	for _, seed := range []string{"ttl: 5s\n", "orgs: {acme: {key_file: f}}\n", "orgs: [1]\n", "a: &a [*a]\n", "ttl: {", "- x", "", "ttl: 5s\nttl: 6s", "1: 2", "? [a]\n: b", "\x00"} {
		f.Add([]byte(seed))
	}
	known := Names()
	f.Fuzz(func(t *testing.T, data []byte) {
		parsed, err := parse("fuzz.yaml", data)
		if err != nil {
			return
		}
		for name, value := range parsed.values {
			if !slices.Contains(known, name) {
				t.Fatalf("took the setting %q", name)
			}
			if _, nested := value.(map[string]any); nested != (name == "orgs") {
				t.Fatalf("took %q as a value of %q", value, name)
			}
		}
	})
}
