package messages

import (
	"bytes"
	"encoding/json"
)

// EncodeWire writes a request, a reply or any other message between nodes and clients as JSON, for every decoder of
// JSON. It differs from json.Marshal in one thing: <, >, & and the line separators U+2028 and U+2029 stay as they are
// inside of a json.RawMessage, so that a payload, an input or an output arrives byte for byte as it was sent, but for
// the spaces and line breaks between its parts, which are left out. It returns the errors of json.Marshal. Safe for
// concurrent use.
func EncodeWire(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), nil // Encode ends a document with one
}
