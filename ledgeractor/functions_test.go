package ledgeractor_test

import (
	"database/sql"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

// growing has, for each SQL function that reads may use, calls of it that grow with n:
//
//	?1 text of n letters      ?2 a JSON array of n bytes     ?3 a blob of n bytes       ?4 n hex digits
//	?5 JSON, nested           ?6 a JSON object of n bytes    ?7 text that repeats       ?8 a pattern that almost matches it everywhere
var growing = map[string][]string{
	"->": {"?2 -> '$[#-1]'"}, "->>": {"?6 ->> '$.none'"}, "abs": {"abs(?1)"}, "char": {"char(1, 2)"}, "coalesce": {"coalesce(NULL, ?1)"},
	"concat": {"concat(?1, ?1, ?1)"}, "concat_ws": {"concat_ws(?1, 'a', 'b', 'c')"}, "date": {"date(?1)", "date('now', ?1)"},
	"datetime": {"datetime(?4)"}, "format": {"format('%s %q %w', ?1, ?1, ?1)", "format(?1)", "format('%.*c', length(?1), 'x')"},
	"glob": {"glob(?8, ?7)", "'*' GLOB ?7"}, "hex": {"hex(?3)"}, "if": {"if(1, ?1, ?1)"}, "ifnull": {"ifnull(?1, 1)"}, "iif": {"iif(1, ?1, ?1)"},
	"instr": {"instr(?7, ?7 || 'b')", "instr(?7, substr(?7, length(?7) / 2) || 'b')", "instr(?3, ?3)"},
	"json":  {"json(?2)", "json(?5)", "json(?6)"}, "json_array": {"json_array(?1, ?1)"},
	"json_array_insert": {"json_array_insert(?2, '$[0]', 1, '$[1]', 2)"}, "json_array_length": {"json_array_length(?2)"},
	"json_error_position": {"json_error_position(?1)", "json_error_position(?2 || ']')"},
	"json_extract":        {"json_extract(?2, '$[#-1]', '$[0]')", "json_extract(?6, '$.none')"},
	"json_insert":         {"json_insert(?2, '$[#]', 1, '$[#]', 2)"}, "json_object": {"json_object('a', ?1)", "json_object(?1, 1)"},
	"json_pretty": {"json_pretty(?2)", "json_pretty(?5)", "json_pretty(?2, ?4)"}, "json_quote": {"json_quote(?1)"},
	"json_remove": {"json_remove(?2, '$[0]', '$[0]')", "json_remove(?6, '$.none')"}, "json_replace": {"json_replace(?2, '$[0]', ?1)"},
	"json_set": {"json_set(?2, '$[0]', ?1, '$[#]', ?1)", "json_set(?6, '$.none', 1)"}, "json_type": {"json_type(?2, '$[#-1]')"},
	"json_valid": {"json_valid(?2)", "json_valid(?5, 6)", "json_valid(jsonb(?2), 8)"}, "jsonb": {"jsonb(?2)", "jsonb(?5)"},
	"jsonb_array": {"jsonb_array(?1)"}, "jsonb_array_insert": {"jsonb_array_insert(?2, '$[0]', 1)"}, "jsonb_extract": {"jsonb_extract(?2, '$[0]')"},
	"jsonb_insert": {"jsonb_insert(?2, '$[#]', 1)"}, "jsonb_object": {"jsonb_object('a', ?1)"}, "jsonb_remove": {"jsonb_remove(?2, '$[0]')"},
	"jsonb_replace": {"jsonb_replace(?2, '$[0]', 1)"}, "jsonb_set": {"jsonb_set(?2, '$[0]', 1)"}, "julianday": {"julianday(?1)"},
	"length": {"length(?1)"}, "like": {"like(?8, ?7)", "?7 LIKE '%' || substr(?8, 1, 200) || '%'", "like(?8, ?7, 'x')", "'%' LIKE ?7"},
	"likelihood": {"likelihood(?1, 0.5)"}, "likely": {"likely(?1)"}, "lower": {"lower(?1)"}, "ltrim": {"ltrim(?1)", "ltrim(?7, ?4)", "ltrim(?7, ?7)"},
	"max": {"max(?1, ?7)", "(SELECT max(value) FROM json_each(?2))"}, "min": {"min(?1, ?7)", "(SELECT min(value) FROM json_each(?2))"},
	"nullif": {"nullif(?1, ?7)"}, "octet_length": {"octet_length(?1)"}, "printf": {"printf('%s', ?1)", "printf('%*d', length(?1), 1)"},
	"quote": {"quote(?1)", "quote(?3)"}, "random": {"random()"}, "randomblob": {"randomblob(length(?1))"},
	"replace": {"replace(?7, ?8, 'x')", "replace(?7, 'a', '')", "replace(?7, substr(?7, length(?7) / 2) || 'b', 'x')"},
	"round":   {"round(?4)", "round(1.5, ?4)"}, "rtrim": {"rtrim(?1)", "rtrim(?7, ?4)", "rtrim(?7, ?7)"}, "sign": {"sign(?4)"},
	"strftime": {"strftime(?1)", "strftime(replace(?1, 'x', '%Y'))"}, "substr": {"substr(?1, length(?1) / 2)", "substr(?1, -9, 5)"},
	"substring": {"substring(?1, 5)"}, "subtype": {"subtype(?1)"}, "time": {"time(?1)"}, "timediff": {"timediff(?1, ?1)"},
	"trim": {"trim(?1)", "trim(?7, ?4)", "trim(?7, ?7)"}, "typeof": {"typeof(?1)"},
	"unhex": {"unhex(?4)", "unhex(?4, ?1)", "unhex(?1, ?1)", "unhex(?7 || ?4, ?1)"}, "unicode": {"unicode(?1)"}, "unistr": {"unistr(?1)"},
	"unistr_quote": {"unistr_quote(?1)"}, "unixepoch": {"unixepoch(?1)"}, "unlikely": {"unlikely(?1)"}, "upper": {"upper(?1)"},
	"zeroblob": {"zeroblob(length(?1))"},

	"changes": {"changes()"}, "current_date": {"current_date"}, "current_time": {"current_time"}, "current_timestamp": {"current_timestamp"},
	"last_insert_rowid": {"last_insert_rowid()"}, "sqlite_source_id": {"sqlite_source_id()"}, "sqlite_version": {"sqlite_version()"},
	"total_changes": {"total_changes()"},

	"avg": {"avg(value)"}, "count": {"count(value)", "count()"}, "group_concat": {"group_concat(value)", "group_concat(value, '--')"},
	"json_group_array": {"json_group_array(value)"}, "json_group_object": {"json_group_object(key, value)"},
	"jsonb_group_array": {"jsonb_group_array(value)"}, "jsonb_group_object": {"jsonb_group_object(key, value)"},
	"string_agg": {"string_agg(value, ',')"}, "sum": {"sum(value)"}, "total": {"total(value)"},

	"cume_dist": {"cume_dist() OVER o"}, "dense_rank": {"dense_rank() OVER o"}, "first_value": {"first_value(value) OVER o"},
	"lag": {"lag(value) OVER o"}, "last_value": {"last_value(value) OVER o"}, "lead": {"lead(value, 2, 0) OVER o"},
	"nth_value": {"nth_value(value, 3) OVER o"}, "ntile": {"ntile(10) OVER o"}, "percent_rank": {"percent_rank() OVER o"},
	"rank": {"rank() OVER o"}, "row_number": {"row_number() OVER o"},

	"match": {"(SELECT count(*) FROM words WHERE body MATCH 'w')"}, "matchinfo": {"(SELECT matchinfo(words, 'pcnalxs') FROM words WHERE body MATCH 'w x y')"},
	"offsets": {"(SELECT length(offsets(words)) FROM words WHERE body MATCH 'w x y')"},
	"snippet": {"(SELECT snippet(words) FROM words WHERE body MATCH 'w x y')", "(SELECT snippet(words, '', '', '', -1, 64) FROM words WHERE body MATCH 'w x y z')"},

	"acos": nil, "acosh": nil, "asin": nil, "asinh": nil, "atan": nil, "atan2": nil, "atanh": nil, "ceil": nil, "ceiling": nil, "cos": nil,
	"cosh": nil, "degrees": nil, "exp": nil, "floor": nil, "ln": nil, "log": nil, "log10": nil, "log2": nil, "mod": nil, "pi": nil,
	"pow": nil, "power": nil, "radians": nil, "sin": nil, "sinh": nil, "sqrt": nil, "tan": nil, "tanh": nil, "trunc": nil, // numbers only
}

// argsOf returns what the calls of growing grow with.
func argsOf(n int) []any {
	var object strings.Builder
	object.WriteString(`{"a":1`)
	for i := 0; object.Len() < n; i++ {
		fmt.Fprintf(&object, `,"k%d":%d`, i, i)
	}
	object.WriteString("}")
	const depth = 900
	nested := strings.Repeat("[", depth) + `"` + strings.Repeat("x", n/16) + `"` + strings.Repeat("]", depth)
	return []any{strings.Repeat("x", n), "[" + strings.Repeat("1,", n/2) + "1]", make([]byte, n), strings.Repeat("0a", n/2),
		"[" + strings.Repeat(nested+",", 8) + "1]", object.String(), strings.Repeat("a", n), "%" + strings.Repeat("a", 250) + "b%"}
}

// cpu returns the time that f takes the processor, at best.
func cpu(t *testing.T, f func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	used := func() time.Duration {
		var u unix.Timespec
		require.NoError(t, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &u))
		return time.Duration(u.Nano())
	}
	best := time.Hour
	for range 3 {
		before := used()
		f()
		best = min(best, used()-before)
	}
	return best
}

const (
	quick  = 15 * time.Millisecond // too short to compare
	linear = 9                     // four times the argument: 4 if it is linear, 16 if it is quadratic
)

// Every SQL function that a read may use takes linear time: it is measured at 64 and at 256 KiB. One that is not
// measured is refused, so that an update of SQLite cannot bring one that runs for hours.
func TestQ3_FunctionsOfReadsAreLinear(t *testing.T) {
	l := start(t, func(c *ledgeractor.Config) {
		c.Migrations = []ledgeractor.Migration{{Version: 1, Name: "words", SQL: "CREATE VIRTUAL TABLE words USING fts4 (body); INSERT INTO words VALUES ('')"}}
		c.Limits.QueryTimeout, c.Limits.CallTimeout = time.Minute, time.Minute
	})
	known := map[string]bool{}
	rows, err := raw(t, ":memory:").Query("SELECT DISTINCT name FROM pragma_function_list")
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var name string
		require.NoError(t, rows.Scan(&name))
		known[name] = true
	}
	require.NoError(t, rows.Err())
	const small, large = 1 << 16, 1 << 18
	took := map[string]time.Duration{}
	for _, n := range []int{small, large} {
		args := argsOf(n)
		require.NoError(t, l.Run(t.Context(), func(tx *ledgeractor.Tx) error {
			_, err := tx.ExecContext(tx.Context(), "UPDATE words SET body = ?", strings.Repeat("w x y ", n/6))
			return err
		}))
		for name, calls := range growing {
			for _, call := range calls {
				if !known[name] {
					continue
				}
				query := "WITH a AS (SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) SELECT " + call
				switch {
				case strings.HasSuffix(call, " OVER o"):
					query += " AS v FROM json_each(substr(?2, 1, length(?2) / 16) || '1]') WINDOW o AS (ORDER BY value) LIMIT 1"
				case strings.Contains(call, "(value") || strings.Contains(call, "(key"):
					query += " FROM json_each(?2)"
				}
				used := cpu(t, func() {
					_, err := l.Query(t.Context(), query, args...)
					if code := messages.CodeOf(err); code != "" && code != messages.CodeSQL && code != messages.CodeTooLarge {
						t.Fatal(call, err)
					}
				})
				if n == small {
					took[call] = used
				} else if used > quick && used > linear*took[call] {
					t.Errorf("%s: %v at %d bytes, %v at %d", call, took[call], small, used, large)
				}
			}
		}
	}
	for name := range known {
		_, err := l.Query(t.Context(), "SELECT "+name+"()")
		refused := messages.CodeOf(err) == messages.CodeReadOnly
		if _, measured := growing[name]; !measured && !refused {
			// A wrong number of arguments is found before the authorizer is asked.
			refused = !ledgeractor.ReadMayCall(name)
			require.True(t, refused, "%s is allowed and not measured", name)
		}
		require.True(t, ledgeractor.ReadMayCall(name) || ledgeractor.RefusedOnPurpose(name), "%s: SQLite has a function that is in no list; measure it", name)
	}
}

// The measure above finds a function that is not linear.
func TestQ3_TheMeasureFindsAFunctionThatIsNotLinear(t *testing.T) {
	db := raw(t, ":memory:")
	at := func(n int) time.Duration {
		args := argsOf(n)
		return cpu(t, func() {
			var out sql.RawBytes
			rows, err := db.Query("SELECT trim(?1, ?2)", args[6], strings.Repeat("b", n)+"a")
			require.NoError(t, err)
			for rows.Next() {
				require.NoError(t, rows.Scan(&out))
			}
			require.NoError(t, rows.Close())
		})
	}
	small, large := at(1<<12), at(1<<14)
	require.Greater(t, large, quick)
	require.Greater(t, large, linear*small)
}

// A view may use what the connections for reads have replaced.
func TestReads_ViewsMayUseReplacedFunctions(t *testing.T) {
	l := start(t, func(c *ledgeractor.Config) {
		c.Migrations = []ledgeractor.Migration{{Version: 1, Name: "view", SQL: "CREATE TABLE x (a TEXT, b TEXT AS (trim(a, 'x'))); INSERT INTO x (a) VALUES ('xax');" +
			"CREATE VIEW v AS SELECT replace(a, 'a', 'b') AS a, instr(b, 'a') AS b, a LIKE '%A%' AS c, unhex('0a-', '-') AS d FROM x"}}
	})
	r, err := l.Query(t.Context(), "SELECT a, b, c, d FROM v WHERE a GLOB 'x*'")
	require.NoError(t, err)
	require.Equal(t, []any{"xbx", int64(1), int64(1), []byte{10}}, r.Rows[0])
}
