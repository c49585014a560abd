package messages

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
)

// CanonicalJSON returns a form of a valid document that is the same for all documents with the same JSON value: without spaces,
// members in the order of their names, and the last of those with one name, strings with as few escapes as can be, numbers by their
// exact decimal value. It is for comparing, and for digests.
func CanonicalJSON(document json.RawMessage) []byte {
	c := canonical{in: document}
	return c.value(make([]byte, 0, len(document)))
}

// canonical reads a valid document. Each method appends what comes next in it to out.
type canonical struct {
	in []byte
	at int
}

// next skips spaces and returns the first byte after them.
func (c *canonical) next() byte {
	for c.in[c.at] == ' ' || c.in[c.at] == '\t' || c.in[c.at] == '\n' || c.in[c.at] == '\r' {
		c.at++
	}
	return c.in[c.at]
}

func (c *canonical) value(out []byte) []byte {
	switch first := c.next(); first {
	case '{':
		return c.object(out)
	case '[':
		c.at++
		for out = append(out, '['); c.next() != ']'; {
			if c.in[c.at] == ',' {
				out = append(out, ',')
				c.at++
			}
			out = c.value(out)
		}
		c.at++
		return append(out, ']')
	case '"':
		return c.text(out)
	default:
		begin := c.at
		for c.at < len(c.in) && bytes.IndexByte([]byte(" \t\n\r,]}"), c.in[c.at]) < 0 {
			c.at++
		}
		if first == '-' || first >= '0' && first <= '9' {
			return appendDecimal(out, c.in[begin:c.at])
		}
		return append(out, c.in[begin:c.at]...)
	}
}

// member is a part of the output: a name and its value.
type member struct{ name, all []byte }

func (c *canonical) object(out []byte) []byte {
	c.at++
	out = append(out, '{')
	begin := len(out)
	var ends [][2]int // of each name, and of its value
	for c.next() != '}' {
		if c.in[c.at] == ',' {
			c.at++
			c.next()
		}
		out = c.text(out)
		name := len(out)
		c.next()
		c.at++ // the colon
		out = c.value(append(out, ':'))
		ends = append(ends, [2]int{name, len(out)})
	}
	c.at++
	given := bytes.Clone(out[begin:])
	list, from := make([]member, len(ends)), 0
	for i, end := range ends {
		list[i] = member{given[from : end[0]-begin], given[from : end[1]-begin]}
		from = end[1] - begin
	}
	slices.SortStableFunc(list, func(a, b member) int { return bytes.Compare(a.name, b.name) })
	out = out[:begin]
	for i, m := range list {
		if i+1 < len(list) && bytes.Equal(m.name, list[i+1].name) {
			continue
		}
		if len(out) > begin {
			out = append(out, ',')
		}
		out = append(out, m.all...)
	}
	return append(out, '}')
}

func (c *canonical) text(out []byte) []byte {
	begin, escaped := c.at, false
	for c.at++; c.in[c.at] != '"'; c.at++ {
		if c.in[c.at] == '\\' {
			escaped = true
			c.at++
		}
	}
	c.at++
	if !escaped {
		return append(out, c.in[begin:c.at]...)
	}
	var text string
	_ = json.Unmarshal(c.in[begin:c.at], &text) // the document is valid
	out = append(out, '"')
	for i := range len(text) {
		switch b := text[i]; {
		case b == '"' || b == '\\':
			out = append(out, '\\', b)
		case b < ' ':
			out = append(out, '\\', 'u', '0', '0', "0123456789abcdef"[b>>4], "0123456789abcdef"[b&15])
		default:
			out = append(out, b)
		}
	}
	return append(out, '"')
}

// maxExponent is far beyond any number that anybody computes with. A number beyond it stays as it is written.
const maxExponent = 1 << 40

// appendDecimal appends a number as its sign, its digits without zeros at either end, and an exponent: 1, 1.0 and 10e-1 are 1e0.
func appendDecimal(out, number []byte) []byte {
	mantissa, exponent := number, int64(0)
	if i := bytes.IndexAny(number, "eE"); i >= 0 {
		n, err := strconv.ParseInt(string(number[i+1:]), 10, 64)
		if err != nil || n > maxExponent || n < -maxExponent {
			return append(out, number...)
		}
		mantissa, exponent = number[:i], n
	}
	whole, negative := bytes.CutPrefix(mantissa, []byte("-"))
	whole, fraction, _ := bytes.Cut(whole, []byte("."))
	digits := append(bytes.Clone(whole), fraction...)
	exponent -= int64(len(fraction))
	trimmed := bytes.TrimRight(digits, "0")
	exponent += int64(len(digits) - len(trimmed))
	trimmed = bytes.TrimLeft(trimmed, "0")
	if len(trimmed) == 0 {
		return append(out, '0')
	}
	if negative {
		out = append(out, '-')
	}
	out = append(append(out, trimmed...), 'e')
	return strconv.AppendInt(out, exponent, 10)
}
