package messages

import (
	"bytes"
	"database/sql/driver"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// A value of SQL is nil (NULL), int64 (INTEGER), float64 (REAL), string (TEXT) or []byte (BLOB) in Go. SQLValue says what SQLite
// stores for any other Go value; EncodeValue and DecodeValue are the one way in which values travel, arguments and results alike.

// TimeLayout is how a time becomes TEXT, that of an event and that of an argument: UTC, microseconds, so that the text sorts as the
// time does, and the date functions of SQLite take it. time.Parse reads it back.
const TimeLayout = "2006-01-02T15:04:05.000000Z"

// SQLValue returns what SQLite stores for an argument of a statement, as it comes back. It follows the rules of database/sql:
// integers, floats, strings and byte slices, types made of them, pointers to them (nil is NULL), and every driver.Valuer. Besides:
// a boolean is 1 or 0, a NaN is NULL, nil bytes are NULL, a time.Time is TEXT by TimeLayout, and a json.Number is an INTEGER unless
// it has a fraction or an exponent. Anything else, and a time outside of the years 0 to 9999, is CodeInvalidArgument.
func SQLValue(v any) (any, error) {
	switch n := v.(type) {
	case int64, string: // most are
		return v, nil
	case json.Number:
		return numberValue(string(n))
	}
	stored, err := driver.DefaultParameterConverter.ConvertValue(v)
	if err != nil {
		return nil, &Error{Code: CodeInvalidArgument, Message: fmt.Sprintf("an argument of type %T cannot be stored", v), Err: err}
	}
	switch s := stored.(type) {
	case bool:
		if s {
			return int64(1), nil
		}
		return int64(0), nil
	case float64:
		if math.IsNaN(s) {
			return nil, nil
		}
	case []byte:
		if s == nil {
			return nil, nil
		}
	case time.Time:
		if err := checkTime(s); err != nil {
			return nil, err
		}
		return s.UTC().Format(TimeLayout), nil
	}
	return stored, nil
}

// checkTime returns CodeInvalidArgument for a time that TimeLayout cannot write.
func checkTime(t time.Time) error {
	if y := t.UTC().Year(); y < 0 || y > 9999 {
		return &Error{Code: CodeInvalidArgument, Message: "a time must be in the years 0 to 9999"}
	}
	return nil
}

// numberValue reads a number of JSON. An integer beyond 64 bits is refused: it would come out as another one.
func numberValue(text string) (any, error) {
	if strings.ContainsAny(text, ".eE") {
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			return f, nil
		}
	} else if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, nil
	}
	return nil, &Error{Code: CodeInvalidArgument, Message: "a value is a number that SQLite cannot hold"}
}

// special is how a value is written that JSON has no form for. Exactly one field is set.
type special struct {
	Blob *[]byte `json:"base64"`
	Text *[]byte `json:"text_base64"`
	Real *string `json:"real"`
}

// EncodeValue writes SQLValue(v) as JSON:
//
//	NULL     null
//	INTEGER  a number without fraction and exponent
//	REAL     a number with one of them (100.0); {"real": "Infinity"} and {"real": "-Infinity"}
//	TEXT     a string; {"text_base64": "…"} if it is not valid UTF-8, or holds NUL
//	BLOB     {"base64": "…"}
//
// It returns the errors of SQLValue.
func EncodeValue(v any) (json.RawMessage, error) {
	var e valueEncoder
	if err := e.value(v); err != nil {
		return nil, err
	}
	return e.Bytes(), nil
}

// valueEncoder writes many values into one buffer.
type valueEncoder struct {
	bytes.Buffer
	quote *json.Encoder
}

func (e *valueEncoder) value(v any) error {
	v, err := SQLValue(v)
	if err != nil {
		return err
	}
	switch v := v.(type) {
	case nil:
		e.WriteString("null")
	case int64:
		e.Write(strconv.AppendInt(e.AvailableBuffer(), v, 10))
	case float64:
		e.real(v)
	case string:
		if !utf8.ValidString(v) || strings.IndexByte(v, 0) >= 0 {
			e.base64("text_base64", []byte(v))
			return nil
		}
		return e.string(v)
	case []byte:
		e.base64("base64", v)
	}
	return nil
}

func (e *valueEncoder) real(f float64) {
	if math.IsInf(f, 0) {
		sign := strings.TrimSuffix(strconv.FormatFloat(f, 'g', -1, 64), "Inf")
		fmt.Fprintf(e, `{"real":"%sInfinity"}`, strings.TrimPrefix(sign, "+"))
		return
	}
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e' // as encoding/json has it
	}
	text := strconv.AppendFloat(e.AvailableBuffer(), f, format, -1, 64)
	if !bytes.ContainsAny(text, ".e") {
		text = append(text, ".0"...)
	}
	e.Write(text)
}

func (e *valueEncoder) base64(name string, b []byte) {
	e.WriteString(`{"` + name + `":"`)
	e.Write(base64.StdEncoding.AppendEncode(e.AvailableBuffer(), b))
	e.WriteString(`"}`)
}

func (e *valueEncoder) string(s string) error {
	if e.quote == nil {
		e.quote = json.NewEncoder(e)
		e.quote.SetEscapeHTML(false)
	}
	if err := e.quote.Encode(s); err != nil {
		return err
	}
	e.Truncate(e.Len() - len("\n")) // Encode ends a document with one
	return nil
}

// DecodeValue reads what EncodeValue wrote: nil, int64, float64, string or []byte. true and false are 1 and 0. Anything
// else is CodeInvalidArgument.
func DecodeValue(raw json.RawMessage) (any, error) {
	raw = bytes.TrimSpace(raw)
	if !json.Valid(raw) {
		return nil, &Error{Code: CodeInvalidArgument, Message: "a value is not one JSON document"}
	}
	if err := CheckText(raw, MaxDocumentDepth); err != nil {
		return nil, err
	}
	return decodeValue(raw)
}

// decodeValue is DecodeValue for a document that is known to be one, without spaces around it.
func decodeValue(raw json.RawMessage) (any, error) {
	switch raw[0] {
	case 'n':
		return nil, nil
	case 't':
		return int64(1), nil
	case 'f':
		return int64(0), nil
	case '"':
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err
	case '{':
		if v, ok := specialValue(raw); ok {
			return v, nil
		}
	case '[':
	default:
		return numberValue(string(raw))
	}
	return nil, &Error{Code: CodeInvalidArgument,
		Message: `a value must be null, a boolean, a number, a string, {"base64": "…"}, {"text_base64": "…"} or {"real": "Infinity"}`}
}

func specialValue(raw []byte) (v any, ok bool) {
	var s special
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if d.Decode(&s) != nil {
		return nil, false
	}
	switch {
	case s.Blob != nil && s.Text == nil && s.Real == nil:
		return *s.Blob, true
	case s.Text != nil && s.Blob == nil && s.Real == nil:
		return string(*s.Text), true
	case s.Real != nil && s.Blob == nil && s.Text == nil:
		switch *s.Real {
		case "Infinity":
			return math.Inf(1), true
		case "-Infinity":
			return math.Inf(-1), true
		}
	}
	return nil, false
}

// Result is what a query returns. A value of a row is nil, int64, float64, string or []byte: what SQLite has, whatever the type is
// that a column was declared with. In JSON it is written as EncodeValue does. SQLite stores NaN as NULL.
type Result struct {
	Columns []string `json:"columns"`
	Rows    [][]any  `json:"rows"`
	// Truncated says that there were more rows than the limits allow.
	Truncated bool `json:"truncated,omitempty"`
}

// MarshalJSON writes the result; its lists are never null. A value that SQLValue refuses is its error.
func (r Result) MarshalJSON() ([]byte, error) {
	var e valueEncoder
	e.WriteString(`{"columns":[`)
	for i, name := range r.Columns {
		e.separate(i)
		if err := e.string(name); err != nil {
			return nil, err
		}
	}
	e.WriteString(`],"rows":[`)
	for i, row := range r.Rows {
		e.separate(i)
		e.WriteByte('[')
		for j, v := range row {
			e.separate(j)
			if err := e.value(v); err != nil {
				return nil, err
			}
		}
		e.WriteByte(']')
	}
	e.WriteByte(']')
	if r.Truncated {
		e.WriteString(`,"truncated":true`)
	}
	e.WriteByte('}')
	return e.Bytes(), nil
}

func (e *valueEncoder) separate(i int) {
	if i > 0 {
		e.WriteByte(',')
	}
}

// value is one value of a result while it is read.
type value struct{ v any }

func (v *value) UnmarshalJSON(raw []byte) (err error) {
	v.v, err = decodeValue(raw)
	return err
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (r *Result) UnmarshalJSON(data []byte) error {
	var in struct {
		Columns   []string  `json:"columns"`
		Rows      [][]value `json:"rows"`
		Truncated bool      `json:"truncated"`
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	*r = Result{Columns: in.Columns, Rows: make([][]any, len(in.Rows)), Truncated: in.Truncated}
	for i, row := range in.Rows {
		r.Rows[i] = make([]any, len(row))
		for j := range row {
			r.Rows[i][j] = row[j].v
		}
	}
	return nil
}
