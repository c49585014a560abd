package ledgeractor

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mattn/go-sqlite3"
)

// SQLite looks at an interrupt between two steps of a statement, never inside a function. Some of its
// functions take time in the product of the sizes of their arguments: one instr of two values of some
// MB runs for hours, and keeps a connection, and so the tenant's next open on this node, waiting. On
// connections for reads they are replaced by ones that take linear time.

// maxLikePattern is the longest pattern of LIKE and GLOB in bytes: they compare it at every place of a value.
const maxLikePattern = 256

// maxArguments bounds the arguments of a function: the JSON functions look for each path anew.
const maxArguments = 127

// errResultTooBig is worded as SQLite words it; failures.fromSQLite knows it by its text.
var errResultTooBig = errors.New("string or blob too big")

// linearFunctions replaces what can take quadratic time.
func linearFunctions(raw *sqlite3.SQLiteConn, maxValue int) error {
	raw.SetLimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, maxLikePattern)
	raw.SetLimit(sqlite3.SQLITE_LIMIT_FUNCTION_ARG, maxArguments)
	for _, f := range []struct {
		name string
		f    any
	}{
		{"instr", linearInstr},
		{"replace", func(x, y, z any) (any, error) { return linearReplace(x, y, z, maxValue) }},
		{"trim", func(x, y any) any { return linearTrim(x, y, true, true) }},
		{"ltrim", func(x, y any) any { return linearTrim(x, y, true, false) }},
		{"rtrim", func(x, y any) any { return linearTrim(x, y, false, true) }},
		{"unhex", linearUnhex},
	} {
		if err := raw.RegisterFunc(f.name, f.f, true); err != nil {
			return err
		}
	}
	return nil
}

// asText is a value as text, as SQLite casts it; it is not ok for NULL.
func asText(v any) (text string, ok bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case []byte:
		return string(v), v != nil
	case int64:
		return strconv.FormatInt(v, 10), true
	case float64:
		if math.IsInf(v, 0) {
			return strings.TrimPrefix(strconv.FormatFloat(v, 'g', -1, 64), "+"), true
		}
		s := strconv.FormatFloat(v, 'g', 15, 64)
		mantissa, exponent, large := strings.Cut(s, "e")
		if !strings.Contains(mantissa, ".") {
			mantissa += ".0"
		}
		if large {
			mantissa += "e" + exponent
		}
		return mantissa, true
	}
	return "", false
}

// linearInstr is SQLite's instr: the place of y in x, in bytes for two blobs, else in characters.
func linearInstr(x, y any) any {
	_, xBlob := x.([]byte)
	_, yBlob := y.([]byte)
	in, ok := asText(x)
	what, ok2 := asText(y)
	if !ok || !ok2 {
		return nil
	}
	if what == "" {
		return int64(1)
	}
	at := newSearch(what).next(in, 0)
	if at < 0 {
		return int64(0)
	}
	if !xBlob || !yBlob {
		chars := 0
		for i := 1; i <= at; i++ {
			if utf8.RuneStart(in[i]) {
				chars++
			}
		}
		at = chars
	}
	return int64(at) + 1
}

// linearReplace is SQLite's replace. A result over limit bytes is refused, as SQLite does.
func linearReplace(x, y, z any, limit int) (any, error) {
	in, ok := asText(x)
	what, ok2 := asText(y)
	with, ok3 := asText(z)
	if !ok || !ok2 || !ok3 {
		return nil, nil
	}
	if what == "" || what[0] == 0 {
		return in, nil
	}
	var out strings.Builder
	s, from := newSearch(what), 0
	for {
		at := s.next(in, from)
		end := at
		if at < 0 {
			end = len(in)
		}
		out.WriteString(in[from:end])
		if at >= 0 {
			out.WriteString(with)
		}
		if out.Len() > limit {
			return nil, errResultTooBig
		}
		if at < 0 {
			return out.String(), nil
		}
		from = at + len(what)
	}
}

// linearTrim is SQLite's trim, ltrim or rtrim with a set of characters. (Of a set that is not UTF-8,
// SQLite would also trim pieces of characters.)
func linearTrim(x, y any, left, right bool) any {
	in, ok := asText(x)
	set, ok2 := asText(y)
	if !ok || !ok2 {
		return nil
	}
	set, _, _ = strings.Cut(set, "\x00") // SQLite reads it to the first NUL
	chars := charsOf(set)
	for left && in != "" {
		r, n := utf8.DecodeRuneInString(in)
		if !chars[charOf(r, n, in[0])] {
			break
		}
		in = in[n:]
	}
	for right && in != "" {
		r, n := utf8.DecodeLastRuneInString(in)
		if !chars[charOf(r, n, in[len(in)-1])] {
			break
		}
		in = in[:len(in)-n]
	}
	return in
}

// linearUnhex is SQLite's unhex with a set of characters that may stand between the bytes. (Of a text without any it makes
// NULL: the driver cannot return a blob without bytes.)
func linearUnhex(x, y any) any {
	in, ok := asText(x)
	set, ok2 := asText(y)
	if !ok || !ok2 {
		return nil
	}
	pass := charsOf(set)
	in, _, _ = strings.Cut(in, "\x00") // SQLite reads to the first NUL
	out := make([]byte, 0, len(in)/2)
	for in != "" {
		if high, ok := hexDigit(in[0]); ok {
			if len(in) < 2 {
				return nil
			}
			low, ok := hexDigit(in[1])
			if !ok {
				return nil
			}
			out, in = append(out, high<<4|low), in[2:]
			continue
		}
		r, n := utf8.DecodeRuneInString(in)
		if !pass[charOf(r, n, in[0])] {
			return nil
		}
		in = in[n:]
	}
	return out
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

// charsOf is the set of the characters of a text.
func charsOf(set string) map[rune]bool {
	chars := map[rune]bool{}
	for set != "" {
		r, n := utf8.DecodeRuneInString(set)
		chars[charOf(r, n, set[0])] = true
		set = set[n:]
	}
	return chars
}

// charOf tells bytes that are not UTF-8 from each other: all of them decode to the same rune.
func charOf(r rune, n int, b byte) rune {
	if r == utf8.RuneError && n == 1 {
		return -1 - rune(b)
	}
	return r
}

// search finds one text in others: the algorithm of Knuth, Morris and Pratt, whose time does not
// depend on what the texts hold. (strings.Index compares hashes that can be made to collide.)
type search struct {
	what string
	back []int32 // back[i]: the length of the longest proper border of what[:i+1]; nil for a short what
}

// shortSearch is the length up to which comparing at every place is quick.
const shortSearch = 32

func newSearch(what string) search {
	if len(what) <= shortSearch {
		return search{what: what}
	}
	back := make([]int32, len(what))
	for i, k := 1, int32(0); i < len(what); i++ {
		for k > 0 && what[i] != what[k] {
			k = back[k-1]
		}
		if what[i] == what[k] {
			k++
		}
		back[i] = k
	}
	return search{what, back}
}

// next returns where the text stands in s at from or later, or -1.
func (f search) next(s string, from int) int {
	if f.back == nil {
		if at := strings.Index(s[from:], f.what); at >= 0 {
			return from + at
		}
		return -1
	}
	k := int32(0)
	for i := from; i < len(s); i++ {
		for k > 0 && s[i] != f.what[k] {
			k = f.back[k-1]
		}
		if s[i] == f.what[k] {
			k++
		}
		if int(k) == len(f.what) {
			return i + 1 - len(f.what)
		}
	}
	return -1
}
