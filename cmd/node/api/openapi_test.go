package api_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/cmd/node/api"
)

func document(t *testing.T) *openapi3.T {
	t.Helper()
	loader := openapi3.NewLoader()
	doc, err := loader.LoadFromData(api.OpenAPI)
	require.NoError(t, err)
	require.NoError(t, doc.Validate(loader.Context))
	return doc
}

// Every route is described, and everything that is described is a route.
func TestOpenAPI_DescribesExactlyTheRoutes(t *testing.T) {
	var described []string
	for path, item := range document(t).Paths.Map() {
		for method := range item.Operations() {
			described = append(described, method+" "+path)
		}
	}
	require.ElementsMatch(t, newShared(t).start(t, "a").server.Routes(), described)
}

// Every operation says what becomes of a failure, in the one shape.
func TestOpenAPI_EveryOperationHasTheErrorShape(t *testing.T) {
	for path, item := range document(t).Paths.Map() {
		for method, op := range item.Operations() {
			failure := op.Responses.Default()
			require.NotNil(t, failure, "%s %s", method, path)
			require.Equal(t, "#/components/responses/Error", failure.Ref, "%s %s", method, path)
			require.NotEmpty(t, op.OperationID)
		}
	}
}

// The codes of messages, of the table of statuses and of openapi.yaml are the same set (D13).
func TestD13_EveryCodeIsDescribedAndHasAStatus(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../../messages/errors.go", nil, 0)
	require.NoError(t, err)
	var declared []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if ok && len(spec.Values) == 1 && strings.HasPrefix(spec.Names[0].Name, "Code") {
			if literal, ok := spec.Values[0].(*ast.BasicLit); ok {
				code, err := strconv.Unquote(literal.Value)
				require.NoError(t, err)
				declared = append(declared, code)
			}
		}
		return true
	})
	require.Greater(t, len(declared), 20)
	var described []string
	for _, code := range document(t).Components.Schemas["Code"].Value.Enum {
		described = append(described, code.(string))
	}
	require.ElementsMatch(t, declared, described)
	require.ElementsMatch(t, declared, api.Codes())
}
