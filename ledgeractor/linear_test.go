package ledgeractor_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

// The functions that replace SQLite's on connections for reads answer as SQLite's own do, which
// transactions still have.
func TestReads_ReplacedFunctionsAnswerAsSQLitesDo(t *testing.T) {
	l := start(t, table)
	long := strings.Repeat("ab", 40)
	values := []any{nil, int64(-12), "0aF9", "0a F9-äf0", " -ä", "0a\x00F", "0", int64(1234), 1.5, 100.0, 1e20, 1e-7, "", " ", "a", "b", "ab", "aab", "ä", "xäöäx", "日本語", "本",
		long, long + "c", long + long + "c" + long, []byte{}, []byte("ab"), []byte("\xff\xfe"), []byte("a\xffb"), []byte("ä")}
	var parts []string
	for _, f := range []string{"instr(%s, %s)", "replace(%s, %s, 'ab')", "trim(%s, %s)", "ltrim(%s, %s)", "rtrim(%s, %s)", "nullif(unhex(%s, %s), x'')"} {
		call := fmt.Sprintf(f, "?1", "?2")
		parts = append(parts, "typeof("+call+")", "hex("+call+")")
	}
	query := "SELECT " + strings.Join(parts, ", ")
	for _, x := range values {
		for _, y := range values {
			var want []any
			require.NoError(t, l.Run(t.Context(), func(tx *ledgeractor.Tx) error {
				rows, err := tx.QueryContext(tx.Context(), query, x, y)
				if err != nil {
					return err
				}
				defer rows.Close()
				want = make([]any, len(parts))
				into := make([]any, len(parts))
				for i := range want {
					into[i] = &want[i]
				}
				require.True(t, rows.Next())
				return rows.Scan(into...)
			}))
			got, err := l.Query(t.Context(), query, x, y)
			require.NoError(t, err)
			require.Equal(t, want, got.Rows[0], "%q and %q", x, y)
		}
	}
}

// Each of these took SQLite's own functions from minutes to hours, and none could be interrupted.
func TestReads_NoFunctionTakesQuadraticTime(t *testing.T) {
	l := start(t, table, func(c *ledgeractor.Config) { c.Limits.QueryTimeout, c.Limits.CallTimeout = time.Minute, time.Minute })
	for query, code := range map[string]messages.Code{
		"SELECT instr(hex(zeroblob(7000000)), hex(zeroblob(3000000)) || '1')":                                               "",
		"SELECT length(replace(hex(zeroblob(7000000)), hex(zeroblob(3000000)) || '1', 'x'))":                                "",
		"SELECT length(trim(replace(hex(zeroblob(2000000)), '0', 'z'), replace(hex(zeroblob(2000000)), '0', 'ab') || 'z'))": "",
		"SELECT replace(hex(zeroblob(7000000)), '0', 'a') LIKE '%' || replace(hex(zeroblob(12000)), '0', 'a') || 'b%'":      messages.CodeSQL,
		"SELECT json_patch('{}', '{}')":                              messages.CodeReadOnly,
		"SELECT length(replace(hex(zeroblob(7000000)), '0', 'abc'))": messages.CodeTooLarge,
	} {
		begun := time.Now()
		_, err := l.Query(t.Context(), query)
		require.Equal(t, code, messages.CodeOf(err), query)
		require.Less(t, time.Since(begun), time.Minute, query)
	}
}
