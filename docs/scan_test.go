package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// root is the repository.
const root = ".."

// ref names a test: "<package>.<Test>" or "<package>.<Test>/<subtest>".
type ref string

// tests is what the source tree has.
type tests struct {
	funcs    map[ref]bool               // without subtests
	literals map[string]map[string]bool // package → the string literals of its test files, spaces as underscores
	suites   map[string][]suiteCheck    // name of a suite's table in stores/storetest → its subtests
	byLine   map[string][]ref           // contract line → tests that carry its name
}

// suiteCheck is a row of a suite's table.
type suiteCheck struct {
	name   string // of the subtest
	manual bool   // runs on a manual clock only
}

func scan(t *testing.T) *tests {
	t.Helper()
	s := &tests{funcs: map[ref]bool{}, literals: map[string]map[string]bool{}, suites: map[string][]suiteCheck{}, byLine: map[string][]ref{}}
	fset := token.NewFileSet()
	var files []*ast.File
	var packages []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || strings.HasPrefix(d.Name(), "leasehold-data")):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		if pkg := filepath.ToSlash(folder); strings.HasSuffix(path, "_test.go") {
			files, packages = append(files, file), append(packages, pkg)
		} else if pkg == "stores/storetest" {
			s.suiteTables(file)
			s.words(pkg, file) // the race names its subtests there
		}
		return nil
	})
	require.NoError(t, err)
	for i, file := range files {
		s.file(packages[i], file)
	}
	for id, refs := range s.byLine {
		slices.Sort(refs)
		s.byLine[id] = slices.Compact(refs)
	}
	return s
}

// suiteTables finds the tables of checks: the subtest of a row is "<id>_<name>".
func (s *tests) suiteTables(file *ast.File) {
	for _, decl := range file.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range gen.Specs {
			v, ok := spec.(*ast.ValueSpec)
			if !ok || len(v.Names) != 1 || len(v.Values) != 1 || !strings.HasSuffix(v.Names[0].Name, "Checks") {
				continue
			}
			if table, ok := v.Values[0].(*ast.CompositeLit); ok {
				for _, row := range table.Elts {
					if words := stringsIn(row); len(words) >= 2 {
						s.suites[v.Names[0].Name] = append(s.suites[v.Names[0].Name], suiteCheck{words[0] + "_" + words[1], mentions(row, "isManual")})
					}
				}
			}
		}
	}
}

func (s *tests) file(pkg string, file *ast.File) {
	s.words(pkg, file)
	for _, decl := range file.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Recv != nil || fn.Name.Name == "TestMain" || !isTest(fn.Name.Name) {
			continue
		}
		r := ref(pkg + "." + fn.Name.Name)
		s.funcs[r] = true
		for _, id := range idsOfName(fn.Name.Name) {
			s.byLine[id] = append(s.byLine[id], r)
		}
		if fn.Body != nil {
			s.subtests(r, fn.Body)
		}
	}
}

func (s *tests) words(pkg string, file *ast.File) {
	if s.literals[pkg] == nil {
		s.literals[pkg] = map[string]bool{}
	}
	for _, word := range stringsIn(file) {
		s.literals[pkg][underscored(word)] = true
	}
}

func isTest(name string) bool {
	return strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz") || strings.HasPrefix(name, "Example")
}

// subtests finds the lines that a test's subtests are named after: literals given to Run, rows of
// tables, and the suites that it calls.
func (s *tests) subtests(r ref, body ast.Node) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			sel, ok := n.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if sel.Sel.Name == "Run" && len(n.Args) > 0 {
				s.subtest(r, n.Args[0])
			}
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == "storetest" {
				s.suite(r, sel.Sel.Name, mentions(n, "RealTime"))
			}
		case *ast.CompositeLit:
			// A row of a table has no type of its own, and its first field, or "name", is its name.
			if n.Type == nil && len(n.Elts) > 0 {
				for i, elt := range n.Elts {
					if kv, ok := elt.(*ast.KeyValueExpr); ok {
						if key, ok := kv.Key.(*ast.Ident); ok && (key.Name == "name" || key.Name == "id") {
							s.subtest(r, kv.Value)
						}
					} else if i == 0 {
						s.subtest(r, elt)
					}
				}
			}
		}
		return true
	})
}

func (s *tests) subtest(r ref, name ast.Expr) {
	lit, ok := name.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return
	}
	word, err := strconv.Unquote(lit.Value)
	if err != nil {
		return
	}
	word = underscored(word)
	for _, id := range idsOfName("Test" + word) {
		s.byLine[id] = append(s.byLine[id], r+ref("/"+word))
	}
}

// suite books the checks of a suite that reports them as subtests.
func (s *tests) suite(r ref, call string, realTime bool) {
	table := map[string]string{"LeaseStore": "leaseChecks", "DurableStore": "durableChecks"}[call]
	for _, c := range s.suites[table] {
		if !c.manual || !realTime {
			id, _, _ := strings.Cut(c.name, "_")
			s.byLine[suiteID(id)] = append(s.byLine[suiteID(id)], r+ref("/"+c.name))
		}
	}
	if call == "Race" {
		s.byLine["E1"] = append(s.byLine["E1"], r+"/E1_one_of_six_processes_is_granted")
		s.byLine["E2"] = append(s.byLine["E2"], r+"/E2_and_again_after_a_real_expiry")
	}
}

// suiteID turns F1 into F.1: the contract numbers the durable store's checks only.
func suiteID(id string) string {
	if len(id) > 1 && id[0] == 'F' && id[1] >= '0' && id[1] <= '9' {
		return "F." + id[1:]
	}
	return id
}

var idWord = regexp.MustCompile(`^(?:[A-EGHIKLQSTW]\d{1,2}|F\d)`)

// idsOfName returns the lines that a test's name begins with: TestS2_…, TestG1_G2_…, TestH4H5_….
func idsOfName(name string) (ids []string) {
	rest := strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(name, "Test"), "Fuzz"), "Example")
	for {
		id := idWord.FindString(rest)
		if id == "" {
			return ids
		}
		ids = append(ids, suiteID(id))
		rest = strings.TrimLeft(rest[len(id):], "_")
	}
}

// has reports whether a test exists. A subtest exists if its name is a literal of its package's test
// files, or a check of a suite.
func (s *tests) has(r ref) bool {
	i := strings.LastIndex(string(r), ".Test") // a package has slashes too
	if i < 0 {
		return s.funcs[r]
	}
	pkg := string(r)[:i]
	name, sub, isSub := strings.Cut(string(r)[i+1:], "/")
	if !s.funcs[ref(pkg+"."+name)] || !isSub {
		return s.funcs[ref(pkg+"."+name)]
	}
	for _, suite := range s.suites {
		if slices.ContainsFunc(suite, func(c suiteCheck) bool { return c.name == sub }) {
			return true
		}
	}
	return s.literals[pkg][sub] || s.literals["stores/storetest"][sub]
}

// mentions reports whether a name occurs in a piece of source.
func mentions(n ast.Node, name string) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && id.Name == name {
			found = true
		}
		return !found
	})
	return found
}

func underscored(s string) string { return strings.ReplaceAll(s, " ", "_") }

func stringsIn(n ast.Node) (out []string) {
	ast.Inspect(n, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil {
				out = append(out, s)
			}
		}
		return true
	})
	return out
}
