package ledgeractor

import (
	"strings"
	"unicode/utf8"

	"github.com/leasehold/leasehold/messages"
)

// sqlText is what can be said about SQL without understanding it. The authorizer is what keeps a
// statement from doing harm; this only makes for early and clear refusals.
type sqlText struct {
	first   string // the first word, in upper case; "" if there is no statement
	end     int    // where the first statement ends, without its semicolon
	several bool   // there is more than one statement (a trigger's body counts)
	refused string // a word outside of strings and comments that application code may not use
	alters  bool   // there is the word ALTER outside of strings and comments
}

// isRead reports whether a single statement can only read, by its first word.
func (t sqlText) isRead() bool {
	return t.first == "SELECT" || t.first == "VALUES" || t.first == "EXPLAIN"
}

// checkSQL scans text, and refuses what SQLite would cut short or misread.
func checkSQL(query string, limit int) (sqlText, error) {
	switch {
	case len(query) > limit:
		return sqlText{}, &messages.Error{Code: messages.CodeTooLarge, Message: "the SQL text is over its limit"}
	case !utf8.ValidString(query) || strings.IndexByte(query, 0) >= 0:
		return sqlText{}, invalid("the SQL text is not valid UTF-8 without NUL")
	}
	text := scanSQL(query)
	// Every statement begins with a letter. That there is one matters: the driver crashes when a
	// statement that was prepared from nothing is stepped.
	if text.first == "" || text.first[0] < 'A' || text.first[0] > 'Z' {
		return text, &messages.Error{Code: messages.CodeSQL, Message: "there is no statement"}
	}
	return text, nil
}

// scanSQL splits text into words as SQLite's tokenizer does, as far as quotes and comments go.
func scanSQL(query string) sqlText {
	var t sqlText
	t.end = len(query)
	ended := false // a semicolon was seen after the first statement
	for i := 0; i < len(query); {
		c := query[i]
		switch {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f':
			i++
			continue
		case strings.HasPrefix(query[i:], "--"):
			i = after(query, i+2, "\n")
			continue
		case strings.HasPrefix(query[i:], "/*"):
			i = after(query, i+2, "*/")
			continue
		case c == ';':
			if t.first != "" && !ended {
				ended, t.end = true, i
			}
			i++
			continue
		}
		if ended {
			t.several = true
		}
		switch {
		case c == '\'' || c == '"' || c == '`':
			i = after(query, i+1, string(c)) // a doubled quote just starts the next piece
		case c == '[':
			i = after(query, i+1, "]")
		case wordByte(c):
			start := i
			for i < len(query) && wordByte(query[i]) {
				i++
			}
			word := query[start:i]
			if t.first == "" {
				t.first = strings.ToUpper(word)
			}
			if strings.EqualFold(word, "ROLLBACK") || strings.EqualFold(word, "DEFERRED") {
				t.refused = strings.ToUpper(word)
			}
			t.alters = t.alters || strings.EqualFold(word, "ALTER")
			continue
		default:
			i++
		}
		if t.first == "" {
			t.first = "?"
		}
	}
	return t
}

func after(s string, from int, end string) int {
	if from < len(s) {
		if i := strings.Index(s[from:], end); i >= 0 {
			return from + i + len(end)
		}
	}
	return len(s)
}

func wordByte(c byte) bool {
	return c == '_' || c == '$' || c >= 0x80 || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
