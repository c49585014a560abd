package docs

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const coverageFile = "contract-coverage.md"

var update = flag.Bool("update", false, "write contract-coverage.md anew: tests that carry a line's name, and those listed by hand that still exist")

// row finds a table row: | id | what it says | tests |
var row = regexp.MustCompile(`(?m)^\| ([A-Z]\.?\d+) \| .* \| (.*) \|$`)

// readCoverage returns the tests of each line, as the document has them.
func readCoverage(t *testing.T) map[string][]ref {
	t.Helper()
	text, err := os.ReadFile(coverageFile)
	if *update && os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	covered := map[string][]ref{}
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		require.NotContains(t, covered, m[1], "line %s has two rows", m[1])
		covered[m[1]] = []ref{}
		for _, name := range strings.Split(m[2], "<br>") {
			if name = strings.Trim(strings.TrimSpace(name), "`"); name != "" {
				covered[m[1]] = append(covered[m[1]], ref(name))
			}
		}
	}
	return covered
}

// Every line of the contract has a row, every row names at least one test, and every test that is
// named exists in the source.
func TestContractCoverage(t *testing.T) {
	have := scan(t)
	covered := readCoverage(t)
	if *update {
		writeCoverage(t, have, covered)
		covered = readCoverage(t)
	}
	known := map[string]bool{}
	for _, s := range contract {
		for _, l := range s.lines {
			known[l.id] = true
			refs, ok := covered[l.id]
			if !ok {
				t.Errorf("%s: no row", l.id)
			} else if len(refs) == 0 {
				t.Errorf("%s (%s): no test", l.id, l.says)
			}
			for _, r := range refs {
				if !have.has(r) {
					t.Errorf("%s: there is no test %s", l.id, r)
				}
			}
		}
	}
	for id := range covered {
		if !known[id] {
			t.Errorf("%s is no line of the contract", id)
		}
	}
}

// The check can fail: a test that is not there, in a package that is and in one that is not, and a
// subtest that is not there.
func TestContractCoverage_TheCheckCanFail(t *testing.T) {
	have := scan(t)
	require.True(t, have.has("docs.TestContractCoverage"))
	require.False(t, have.has("docs.TestContractCoverag"))
	require.False(t, have.has("dogs.TestContractCoverage"))
	require.False(t, have.has(ref("stores/sqlite.TestB1_ConformsOnAFakeClock/"+"B.99_no_such_check")))
	require.True(t, have.has(ref("stores/sqlite.TestB1_ConformsOnAFakeClock/"+"B.1_first_acquire")))
	require.Equal(t, []string{"G1", "G2"}, idsOfName("TestG1_G2_Both"))
	require.Equal(t, []string{"S12"}, idsOfName("TestS12_Seals"))
	require.Equal(t, []string{"F.6"}, idsOfName("TestF6_SixteenProcesses"))
	require.Empty(t, idsOfName("TestSomething"))
}

func writeCoverage(t *testing.T, have *tests, covered map[string][]ref) {
	t.Helper()
	var b strings.Builder
	b.WriteString(`# Contract coverage

Which tests prove which line of the contract. A test carries the line's name: ` + "`TestS2_…`" + `, or a subtest
` + "`S2_…`" + `. B.1 to B.13 and F.1 to F.8 are the checks of the conformance suites in ` + "`stores/storetest`" + `, which
every binding runs.

` + "`go test ./docs`" + ` fails if a line has no test or a test named here does not exist. After adding tests, write
this file anew with ` + "`go test ./docs -run TestContractCoverage -update`" + `; entries made by hand stay.
`)
	for _, s := range contract {
		fmt.Fprintf(&b, "\n## %s\n\n| Line | What it says | Tests |\n|---|---|---|\n", s.title)
		for _, l := range s.lines {
			refs := slices.Clone(have.byLine[l.id])
			for _, r := range covered[l.id] {
				if have.has(r) {
					refs = append(refs, r)
				}
			}
			slices.Sort(refs)
			var cells []string
			for _, r := range slices.Compact(refs) {
				cells = append(cells, "`"+string(r)+"`")
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", l.id, l.says, strings.Join(cells, "<br>"))
		}
	}
	require.NoError(t, os.WriteFile(coverageFile, []byte(b.String()), 0o644))
}
