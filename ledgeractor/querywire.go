package ledgeractor

import (
	"bufio"
	"database/sql/driver"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// What a node and its query processes say to each other: frames of a kind, a length (32 bits, big endian) and a body. The
// node asks one query at a time of a process, and reads frames until frameEnd. Bodies are made of uvarints, strings with
// their length before them, and values with their type before them.
const (
	frameQuery   byte = 'q' // to the process: see childQuery
	frameCancel  byte = 'c' // interrupt the query
	frameForget  byte = 'f' // close the file: a path; answered with frameForgot, also while a query runs
	frameColumns byte = 'n' // from the process: the names
	frameRow     byte = 'r' // the values of one row
	frameEnd     byte = 'e' // see queryEnd
	frameForgot  byte = 'g'
)

// frameOverhead is the room in a frame beside the bytes of values: names of columns, types and lengths.
const frameOverhead = 1 << 20

var errWire = errors.New("a frame of a query process is malformed")

// childQuery is what a query process needs to know about a query.
type childQuery struct {
	path     string
	evict    string // another ledger, that the process is to close; "": none
	sql      string
	maxValue int   // Limits.MaxValueBytes
	cacheKiB int   // Limits.CacheKiB
	maxRows  int   // Limits.MaxRows
	maxBytes int64 // Limits.MaxBytes
	args     []driver.NamedValue
}

func (q childQuery) encode() ([]byte, error) {
	b := appendString(appendString(appendString(nil, q.path), q.evict), q.sql)
	for _, n := range []uint64{uint64(q.maxValue), uint64(q.cacheKiB), uint64(q.maxRows), uint64(q.maxBytes), uint64(len(q.args))} {
		b = binary.AppendUvarint(b, n)
	}
	var err error
	for _, arg := range q.args {
		b = appendString(b, arg.Name)
		if b, err = appendValue(b, arg.Value); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func decodeChildQuery(body []byte) (q childQuery, err error) {
	d := decoder{body}
	q.path, q.evict, q.sql = d.string(), d.string(), d.string()
	q.maxValue, q.cacheKiB, q.maxRows, q.maxBytes = int(d.uint()), int(d.uint()), int(d.uint()), int64(d.uint())
	for n := d.uint(); n > 0 && d.b != nil; n-- {
		q.args = append(q.args, driver.NamedValue{Name: d.string(), Ordinal: len(q.args) + 1, Value: d.value()})
	}
	return q, d.end()
}

// queryEnd is what there is to say after the rows.
type queryEnd struct {
	seq       int64 // of the last event that the query shows
	truncated bool
}

// encode adds an error, or none, as JSON.
func (e queryEnd) encode(err error) []byte {
	b := binary.AppendVarint(nil, e.seq)
	b, _ = appendValue(b, e.truncated)
	if err == nil {
		return b
	}
	document, jerr := json.Marshal(messages.AsError(err))
	if jerr != nil {
		document = []byte(`{"code":"internal"}`)
	}
	return append(b, document...)
}

func decodeQueryEnd(body []byte) (e queryEnd, err error) {
	seq, n := binary.Varint(body)
	if n <= 0 {
		return e, errWire
	}
	d := decoder{body[n:]}
	truncated, ok := d.value().(bool)
	if e.seq, e.truncated = seq, truncated; !ok {
		return e, errWire
	}
	if len(d.b) == 0 {
		return e, nil
	}
	typed := new(messages.Error)
	if err := json.Unmarshal(d.b, typed); err != nil {
		return e, err
	}
	return e, typed
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// The types of values. SQLite has five; the driver takes, and may make, two more.
const (
	valueNull byte = iota
	valueInt
	valueFloat
	valueText
	valueBlob
	valueBool
	valueTime
)

func appendValue(b []byte, v driver.Value) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(b, valueNull), nil
	case int64:
		return binary.AppendVarint(append(b, valueInt), v), nil
	case float64:
		return binary.BigEndian.AppendUint64(append(b, valueFloat), math.Float64bits(v)), nil
	case string:
		return appendString(append(b, valueText), v), nil
	case []byte:
		return append(binary.AppendUvarint(append(b, valueBlob), uint64(len(v))), v...), nil
	case bool:
		if v {
			return append(b, valueBool, 1), nil
		}
		return append(b, valueBool, 0), nil
	case time.Time:
		text, err := v.MarshalBinary()
		return appendString(append(b, valueTime), string(text)), err
	}
	return nil, errWire
}

// decoder reads a body. What is malformed makes zero values, and an error at the end.
type decoder struct{ b []byte } // nil: malformed

func (d *decoder) take(n uint64) []byte {
	if d.b == nil || n > uint64(len(d.b)) {
		d.b = nil
		return nil
	}
	out := d.b[:n]
	d.b = d.b[n:]
	return out
}

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.b = nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) string() string { return string(d.take(d.uint())) }

func (d *decoder) value() driver.Value {
	kind := d.take(1)
	if kind == nil {
		return nil
	}
	switch kind[0] {
	case valueNull:
		return nil
	case valueInt:
		v, n := binary.Varint(d.b)
		if n > 0 {
			d.b = d.b[n:]
			return v
		}
	case valueFloat:
		if bits := d.take(8); bits != nil {
			return math.Float64frombits(binary.BigEndian.Uint64(bits))
		}
		return nil
	case valueText:
		return d.string()
	case valueBlob:
		return append([]byte{}, d.take(d.uint())...)
	case valueBool:
		v := d.take(1)
		return v != nil && v[0] == 1
	case valueTime:
		var t time.Time
		if t.UnmarshalBinary([]byte(d.string())) == nil {
			return t
		}
	}
	d.b = nil
	return nil
}

func (d *decoder) end() error {
	if d.b == nil || len(d.b) > 0 {
		return errWire
	}
	return nil
}

func appendStrings(b []byte, list []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, s := range list {
		b = appendString(b, s)
	}
	return b
}

func decodeStrings(body []byte) (list []string, err error) {
	d := decoder{body}
	for n := d.uint(); n > 0 && d.b != nil; n-- {
		list = append(list, d.string())
	}
	return list, d.end()
}

func appendRow(b []byte, row []driver.Value) (_ []byte, err error) {
	for _, v := range row {
		if b, err = appendValue(b, v); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// decodeRow fills row, which has the right length.
func decodeRow(body []byte, row []driver.Value) error {
	d := decoder{body}
	for i := range row {
		row[i] = d.value()
	}
	return d.end()
}

func writeFrame(w io.Writer, kind byte, body []byte) error {
	if len(body) > math.MaxInt32 {
		return errWire
	}
	head := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)))
	if _, err := w.Write(head); err != nil {
		return err
	}
	_, err := w.Write(body)
	return err
}

// readFrame reads a frame whose body has at most limit bytes.
func readFrame(r *bufio.Reader, limit int64) (kind byte, body []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	size := int64(binary.BigEndian.Uint32(head[1:]))
	if size > limit {
		return 0, nil, errWire
	}
	body = make([]byte, size)
	_, err = io.ReadFull(r, body)
	return head[0], body, err
}
