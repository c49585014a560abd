package messages

import (
	"fmt"
	"unicode/utf8"
)

// MaxDocumentDepth is the deepest nesting of a request: that of a payload, and what surrounds it.
const MaxDocumentDepth = MaxPayloadDepth + 4

// CheckText returns CodeInvalidArgument for a JSON document that encoding/json would accept and change, or follow too deep: broken
// UTF-8 and half surrogate pairs (it makes U+FFFD of both, so that two different keys become one), NUL (SQLite and C
// end a string there), and nesting beyond depth. It does not check the grammar.
func CheckText(document []byte, depth int) error {
	if fault := textFault(document, depth); fault != "" {
		return &Error{Code: CodeInvalidArgument, Message: "the document " + fault}
	}
	return nil
}

// textFault returns what CheckText refuses, "" if nothing.
func textFault(document []byte, depth int) (fault string) {
	if !utf8.Valid(document) {
		return "is not valid UTF-8"
	}
	open, inString := 0, false
	for i := 0; i < len(document); i++ {
		switch c := document[i]; {
		case inString && c == '\\':
			n, fault := checkEscape(document[i:])
			if fault != "" {
				return fault
			}
			i += n - 1
		case c == '"':
			inString = !inString
		case c == 0:
			return "holds a NUL"
		case inString:
		case c == '{' || c == '[':
			if open++; open > depth {
				return fmt.Sprintf("is nested deeper than %d", depth)
			}
		case c == '}' || c == ']':
			open--
		}
	}
	return ""
}

// checkEscape looks at the escape that s begins with and returns its length, or what is wrong with it. A surrogate pair is one.
func checkEscape(s []byte) (length int, fault string) {
	r, ok := hex4(s)
	switch {
	case !ok:
		return 2, "" // \n and its like; the decoder refuses a broken \u
	case r == 0:
		return 0, `holds a NUL, as \u0000`
	case r < 0xd800 || r > 0xdfff:
		return 6, ""
	}
	low, ok := hex4(s[6:])
	if r > 0xdbff || !ok || low < 0xdc00 || low > 0xdfff {
		return 0, "holds half a surrogate pair"
	}
	return 12, ""
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
