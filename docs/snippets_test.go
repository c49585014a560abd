package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// snippet is one fenced block of a document.
type snippet struct {
	file   string // relative to the repository
	line   int
	lang   string // sh, go, json, yaml, …
	marker string // what the comment <!-- test: … --> or <!-- example: … --> before it says
	text   string
}

var (
	fence      = regexp.MustCompile("^```(\\w*)$")
	markerLine = regexp.MustCompile(`^<!-- ((?:test|example): .*) -->$`)
)

// documents are the files whose snippets are checked.
func documents() ([]string, error) {
	files := []string{"README.md", "CHANGELOG.md"}
	for _, pattern := range []string{"docs/*.md", "docs/decisions/*.md", "examples/*/README.md", "examples/*/*/README.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			return nil, fmt.Errorf("no documents %s: %w", pattern, err)
		}
		for _, f := range found {
			f, err := filepath.Rel(root, f)
			if err != nil {
				return nil, err
			}
			files = append(files, filepath.ToSlash(f))
		}
	}
	return files, nil
}

// snippets returns the blocks of a document, in order.
func snippets(t *testing.T, file string) (out []snippet) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	require.NoError(t, err)
	var open *snippet
	marker := ""
	for i, line := range strings.Split(string(text), "\n") {
		m := fence.FindStringSubmatch(line)
		switch {
		case open != nil && line == "```":
			out = append(out, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		case m != nil:
			open = &snippet{file: file, line: i + 1, lang: m[1], marker: marker}
			marker = ""
		default:
			marker = ""
			if m := markerLine.FindStringSubmatch(line); m != nil {
				marker = m[1]
			}
		}
	}
	require.Nil(t, open, "%s: a block is not closed", file)
	return out
}

// Every snippet in a language that can be checked is run, compiled or compared; how, its marker says.
func TestSnippets(t *testing.T) {
	r := newRunner(t)
	files, err := documents()
	require.NoError(t, err)
	for _, file := range files {
		for _, s := range snippets(t, file) {
			t.Run(fmt.Sprintf("%s_line_%d", strings.ReplaceAll(s.file, "/", "_"), s.line), func(t *testing.T) {
				switch s.lang {
				case "sh":
					r.shell(t, s)
				case "go":
					r.golang(t, s)
				case "yaml":
					r.yaml(t, s)
				case "json":
					require.True(t, strings.HasPrefix(s.marker, "example: "), "line %d: what is this an example of?", s.line)
				default:
					t.Fatalf("%s:%d: a block in %q is not checked by anything", s.file, s.line, s.lang)
				}
			})
		}
	}
}

// Every relative link leads to a file that is there.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	files, err := documents()
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(root, file))
		require.NoError(t, err)
		prose := regexp.MustCompile("(?s)\n```.*?\n```\n").ReplaceAllString(string(text), "\n")
		for _, m := range link.FindAllStringSubmatch(prose, -1) {
			target := filepath.Join(root, filepath.Dir(file), m[1])
			_, err := os.Stat(target)
			require.NoError(t, err, "%s: a link leads nowhere", file)
			if m[2] != "" {
				doc, err := os.ReadFile(target)
				require.NoError(t, err)
				require.Contains(t, anchors(string(doc)), m[2], "%s: no such heading in %s", file, m[1])
			}
		}
	}
}

// anchors returns the headings as GitHub links to them.
func anchors(doc string) (out []string) {
	for _, line := range strings.Split(doc, "\n") {
		if text := strings.TrimLeft(line, "#"); text != line {
			text = strings.ToLower(strings.TrimSpace(text))
			text = regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(text, "")
			out = append(out, "#"+strings.ReplaceAll(text, " ", "-"))
		}
	}
	return out
}
