package api

import (
	"fmt"
	"unicode/utf8"

	"github.com/leasehold/leasehold/messages"
)

// maxDepth is the deepest nesting of a request: that of a payload, and what surrounds it.
const maxDepth = messages.MaxPayloadDepth + 4

// checkText refuses what encoding/json would accept and change, or follow too deep: broken UTF-8 and
// lone surrogates (it makes U+FFFD of both, so that two different keys become one), NUL (SQLite and C
// end a string there), and nesting beyond maxDepth. It does not check the grammar.
func checkText(body []byte) error {
	if !utf8.Valid(body) {
		return invalid("the body is not valid UTF-8")
	}
	depth, inString := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case inString && c == '\\':
			n, err := checkEscape(body[i:])
			if err != nil {
				return err
			}
			i += n - 1
		case c == '"':
			inString = !inString
		case c == 0:
			return invalid("the body holds a NUL")
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return invalid(fmt.Sprintf("the body is nested deeper than %d", maxDepth))
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

// checkEscape looks at the escape that s begins with and returns its length. A surrogate pair is one.
func checkEscape(s []byte) (length int, err error) {
	r, ok := hex4(s)
	switch {
	case !ok:
		return 2, nil // \n and its like; the decoder refuses a broken \u
	case r == 0:
		return 0, invalid(`the body holds a NUL, as \u0000`)
	case r < 0xd800 || r > 0xdfff:
		return 6, nil
	}
	low, ok := hex4(s[6:])
	if r > 0xdbff || !ok || low < 0xdc00 || low > 0xdfff {
		return 0, invalid("the body holds half a surrogate pair")
	}
	return 12, nil
}

// hex4 reads \uXXXX.
func hex4(s []byte) (value rune, ok bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	for _, c := range s[2:6] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		value = value<<4 | rune(c)
	}
	return value, true
}
