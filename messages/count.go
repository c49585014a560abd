package messages

import "fmt"

// What a message costs in memory depends on how many values it has, and not on its bytes alone: {} takes two of them,
// and becomes an event of 150. So the values are counted before anything is made of them.
const (
	// MaxRequestValues bounds the values of a request by CheckValues: what 1,000 events and the arguments that SQLite can
	// take (32,766) need, and more.
	MaxRequestValues = 1 << 17
	// MaxReplyValues bounds the values of a reply: the fields of all rows of a result, above all.
	MaxReplyValues = 1 << 20
	// maxNameBytes bounds the name of a member. Ours are short; one of 16 MB takes a decoder seconds.
	maxNameBytes = 1 << 10
)

// raw are the names of what is kept as text and not decoded.
func raw(name []byte) bool {
	switch string(name) {
	case "payload", "input", "output":
		return true
	}
	return false
}

// CheckValues returns CodeTooLarge for a JSON document with more than most values: elements of arrays and members of
// objects, but for what is inside of a payload, an input or an output; and for one with a name that no message has. It
// allocates nothing, and does not check the grammar.
func CheckValues(doc []byte, most int) error {
	if len(doc) <= 2*most {
		return nil // each but the last takes a comma
	}
	var name []byte      // the last string
	depth, inRaw := 0, 0 // inRaw: how deep the raw value begins that this is in; 0: in none
	follows := false     // a raw value
	count := 0
	for i := 0; i < len(doc); i++ {
		switch doc[i] {
		case '"':
			end := i + 1
			for end < len(doc) && doc[end] != '"' {
				if doc[end] == '\\' {
					end++
				}
				end++
			}
			name, i = doc[i+1:min(end, len(doc))], end
		case ':':
			if inRaw == 0 && len(name) > maxNameBytes {
				return &Error{Code: CodeTooLarge, Message: fmt.Sprintf("the name of a member has more than %d bytes", maxNameBytes)}
			}
			follows = inRaw == 0 && raw(name)
		case '{', '[':
			depth++
			if follows {
				inRaw, follows = depth, false
			}
		case '}', ']':
			if depth == inRaw {
				inRaw = 0
			}
			depth--
		case ',':
			follows = false
			if inRaw != 0 {
				continue
			}
			if count++; count >= most {
				return &Error{Code: CodeTooLarge, Message: fmt.Sprintf("the document has more than %d values", most)}
			}
		}
	}
	return nil
}
