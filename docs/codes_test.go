package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/cmd/node/api"
	"github.com/leasehold/leasehold/messages"
)

// codes returns every code that messages/errors.go declares.
func codes(t *testing.T) (out []messages.Code) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "messages", "errors.go"), nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	for _, decl := range file.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.CONST {
			continue
		}
		for _, spec := range gen.Specs {
			v := spec.(*ast.ValueSpec)
			if typ, ok := v.Type.(*ast.Ident); ok && typ.Name == "Code" {
				code, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
				require.NoError(t, err)
				out = append(out, messages.Code(code))
			}
		}
	}
	require.Greater(t, len(out), 30)
	return out
}

// "What clients should do" says of every code, and of no other, what to do, with its HTTP status.
func TestOperations_SaysWhatClientsDoWithEveryCode(t *testing.T) {
	_, section, found := strings.Cut(read(t, "docs/operations.md"), "\n### What clients should do\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n### ")
	status := map[messages.Code]int{}
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		require.Len(t, cells, 3, line)
		statuses := strings.Split(strings.TrimSpace(cells[1]), ", ")
		for i, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(cells[0], -1) {
			n, err := strconv.Atoi(statuses[min(i, len(statuses)-1)])
			require.NoError(t, err, line)
			require.NotContains(t, status, messages.Code(m[1]), "twice")
			status[messages.Code(m[1])] = n
		}
	}
	all := codes(t)
	for _, code := range all {
		require.Contains(t, status, code)
		require.Equal(t, api.Status(code), status[code], code)
	}
	for code := range status {
		require.True(t, slices.Contains(all, code), "there is no code %s", code)
	}
	require.Contains(t, section, "`messages.ApplicationError`")
}
