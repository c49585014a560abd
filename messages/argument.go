package messages

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
)

// blob is how bytes are written as an argument: JSON has none.
type blob struct {
	Base64 *[]byte `json:"base64"`
}

// EncodeArgument writes the value of a placeholder of a statement as JSON: nil, booleans, integers, floats,
// strings, []byte (as {"base64": "…"}), and what marshals to one of these. A float stays one: 100 is written as
// 100.0, since for SQLite a real and an integer are not the same (100 / 8). Anything else is CodeInvalidArgument.
func EncodeArgument(v any) (json.RawMessage, error) {
	if b, ok := v.([]byte); ok && b != nil { // nil is NULL, as in database/sql
		v = blob{&b}
	}
	float := isFloat(v)
	if float {
		if f := reflect.Indirect(reflect.ValueOf(v)).Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, &Error{Code: CodeInvalidArgument, Message: "an argument is not a finite number"}
		}
	}
	text, err := EncodeWire(v)
	if err != nil {
		return nil, &Error{Code: CodeInvalidArgument, Message: fmt.Sprintf("an argument of type %T cannot be sent", v), Err: err}
	}
	if float && !bytes.ContainsAny(text, ".e") {
		text = append(text, ".0"...)
	}
	if _, err := DecodeArgument(text); err != nil {
		return nil, err
	}
	return text, nil
}

// isFloat reports whether v is a floating-point number, or points to one, that does not say itself how it is written.
func isFloat(v any) bool {
	switch v.(type) {
	case json.Marshaler, encoding.TextMarshaler:
		return false
	}
	return reflect.Indirect(reflect.ValueOf(v)).CanFloat()
}

// DecodeArgument reads what EncodeArgument wrote: nil, bool, int64, float64, string or []byte. Anything
// else is CodeInvalidArgument.
func DecodeArgument(raw json.RawMessage) (any, error) {
	var value any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&value); err != nil {
		return nil, &Error{Code: CodeInvalidArgument, Message: "an argument is not JSON", Err: err}
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, &Error{Code: CodeInvalidArgument, Message: "something follows an argument"}
	}
	switch v := value.(type) {
	case nil, bool, string:
		return v, nil
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n, nil
		}
		// A whole number beyond 64 bits would come out as another one.
		if f, err := v.Float64(); err == nil && strings.ContainsAny(v.String(), ".eE") {
			return f, nil
		}
		return nil, &Error{Code: CodeInvalidArgument, Message: "an argument is a number that SQLite cannot hold"}
	case map[string]any:
		var b blob
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		if err := d.Decode(&b); err == nil && b.Base64 != nil {
			return *b.Base64, nil
		}
	}
	return nil, &Error{Code: CodeInvalidArgument, Message: `an argument must be null, a boolean, a number, a string or {"base64": "…"}`}
}
