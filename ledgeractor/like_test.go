package ledgeractor_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

// LIKE and GLOB of reads in this process answer as SQLite's own do, which transactions have.
func TestReads_PatternsMatchAsSQLitesDo(t *testing.T) {
	l := start(t)
	type pair struct{ pattern, value, escape any }
	pairs := []pair{{nil, "a", "x"}, {"a", nil, "x"}, {"a", "a", nil}, {int64(1), 1.0, "x"}, {"1.0", 1.0, "x"}, {[]byte("a%"), []byte("abc"), "x"}, {"ä%", "Ä", "x"},
		{"a\x00b", "a\x00c", "x"}, {"%", "", "%"}, {"_", "_", "_"}, {"", "", "ä"}, {"äää%", "ä%", "ä"}, {"%ab", "xxabab", "x"}}
	random := rand.New(rand.NewPCG(1, 2))
	text := func(alphabet []string, max int) string {
		var b strings.Builder
		for range random.IntN(max + 1) {
			b.WriteString(alphabet[random.IntN(len(alphabet))])
		}
		return b.String()
	}
	for range 3000 {
		pairs = append(pairs, pair{text(strings.Split("aabAB%%_**?[[]]^-äÄ\\", ""), 8), text(strings.Split("aaabABä-]Ä[_%", ""), 8), text(strings.Split("\\a%_äA", ""), 1)})
	}
	const query = "SELECT ?1 LIKE ?2, ?2 LIKE ?1, ?2 GLOB ?1"
	const escaped = "SELECT ?2 LIKE ?1 ESCAPE ?3"
	compare := func(tx *ledgeractor.Tx, some []pair) error {
		for _, p := range some {
			var want [3]any
			require.NoError(t, tx.QueryRowContext(tx.Context(), query, p.pattern, p.value).Scan(&want[0], &want[1], &want[2]))
			got, err := l.Query(t.Context(), query, p.pattern, p.value)
			require.NoError(t, err)
			require.Equal(t, want[:], got.Rows[0], "%q", p)
			var one any
			wrong := tx.QueryRowContext(tx.Context(), escaped, p.pattern, p.value, p.escape).Scan(&one)
			got, err = l.Query(t.Context(), escaped, p.pattern, p.value, p.escape)
			require.Equal(t, messages.CodeOf(wrong), messages.CodeOf(err), "%q", p)
			if err == nil {
				require.Equal(t, one, got.Rows[0][0], "%q", p)
			}
		}
		return nil
	}
	for some := range slices.Chunk(pairs, 100) { // a transaction's time is bounded
		require.NoError(t, l.Run(t.Context(), func(tx *ledgeractor.Tx) error { return compare(tx, some) }))
	}
	// What would compare a long pattern at every place of a long value is given up.
	begun := time.Now()
	for _, bad := range []string{"glob('*' || substr(x, 1, 250) || 'b*', x)", "x LIKE '%' || substr(x, 1, 250) || 'b%'"} {
		_, err := l.Query(t.Context(), "SELECT "+bad+" FROM (SELECT replace(hex(zeroblob(500000)), '0', 'a') AS x)")
		requireCode(t, err, messages.CodeSQL)
	}
	require.Less(t, time.Since(begun), time.Minute)
	for _, good := range []string{"x LIKE '%b%'", "x GLOB '*ab'", "x GLOB 'a*'", "x LIKE '%aab%'", "x GLOB '*a*a'", "x GLOB '*a*a*a*a*a*a*b'"} {
		_, err := l.Query(t.Context(), "SELECT "+good+" FROM (SELECT replace(hex(zeroblob(500000)), '0', 'a') AS x)")
		require.NoError(t, err, good)
	}
}
