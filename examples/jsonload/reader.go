package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"unicode/utf8"

	"github.com/leasehold/leasehold/messages"
)

// maxLine is the longest line that can hold an event, in bytes: a payload, and names with escapes.
const maxLine = messages.MaxPayloadBytes + 64<<10

// Line is one line of the file that is not blank.
type Line struct {
	Number int // from 1
	Bytes  int64
	Event  messages.Event
	Bad    string // why it is no event; never what it holds
}

// Reader reads events from JSONL: one JSON object a line, with the fields of messages.Event. A line
// of any length takes no more memory than maxLine.
type Reader struct {
	source string
	in     *bufio.Reader
	number int
	offset int64
}

// NewReader returns a reader. source is part of the derived idempotency keys: it tells files apart
// that have the same line at the same place.
func NewReader(source string, in io.Reader) *Reader {
	return &Reader{source: source, in: bufio.NewReaderSize(in, 64<<10)}
}

// Next returns the next line that is not blank, or io.EOF after the last one. Other errors are those
// of the file.
func (r *Reader) Next() (Line, error) {
	for {
		text, length, ended, err := r.line()
		if err != nil {
			return Line{}, err
		}
		begin := r.offset
		r.offset += length
		r.number++
		if r.number == 1 {
			text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")) // a byte order mark
		}
		text = bytes.TrimSpace(text)
		if len(text) == 0 && length <= maxLine {
			continue
		}
		l := Line{Number: r.number, Bytes: length}
		if length > maxLine {
			l.Bad = "the line is too long for an event"
			return l, nil
		}
		l.Event, l.Bad = parse(text)
		if l.Bad != "" && !ended {
			// A cut-off object is never an object, so a last line that is one is whole.
			l.Bad = "the last line is cut off: " + l.Bad
		}
		if l.Bad == "" && l.Event.IdemKey == "" {
			l.Event.IdemKey = r.key(begin, text)
		}
		return l, nil
	}
}

// line reads up to the next newline and keeps at most maxLine bytes of it. ended is false for a last
// line without one.
func (r *Reader) line() (text []byte, length int64, ended bool, err error) {
	for {
		piece, err := r.in.ReadSlice('\n')
		length += int64(len(piece))
		if length <= maxLine {
			text = append(text, piece...)
		}
		switch {
		case err == nil:
			return text, length, true, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && length > 0:
			return text, length, false, nil
		default:
			return nil, length, false, err
		}
	}
}

// key derives an idempotency key from where a line stands and what it says, so that a second run
// appends nothing twice. Two equal lines of one file are two events.
func (r *Reader) key(offset int64, text []byte) string {
	h := sha256.New()
	h.Write([]byte(r.source))
	h.Write(binary.BigEndian.AppendUint64([]byte{0}, uint64(offset)))
	h.Write(text)
	return "jsonl-" + hex.EncodeToString(h.Sum(nil)[:16])
}

func parse(text []byte) (messages.Event, string) {
	var e messages.Event
	if !utf8.Valid(text) {
		return e, "it is not valid UTF-8"
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) || errors.Is(err, io.ErrUnexpectedEOF) {
			return e, "it is not JSON"
		}
		return e, "it is not an event: a field is unknown or has the wrong type"
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return e, "there is something after the JSON object"
	}
	if err := e.Validate(); err != nil {
		return e, messages.AsError(err).Message
	}
	return e, ""
}
