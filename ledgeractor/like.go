package ledgeractor

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/mattn/go-sqlite3"
)

// SQLite's LIKE and GLOB compare their pattern at every place of a value: 256 bytes at the places of 16 MB take seconds, a row may
// have many such calls, and none can be interrupted. Where nobody can kill them they are replaced by the same algorithm, which gives
// up when it has taken many more steps than its arguments have bytes. (SQLite can use an index for its own, and not for these.)

// stepsPerByte is how many steps a comparison may take for each byte of its arguments; common ones take one or two.
const stepsPerByte = 64

var (
	errPattern = errors.New("LIKE or GLOB pattern too complex") // SQLite's own words
	errEscape  = errors.New("ESCAPE expression must be a single character")
)

// boundPatterns replaces LIKE and GLOB on a connection for reads.
func boundPatterns(raw *sqlite3.SQLiteConn) error {
	return errors.Join(
		raw.RegisterFunc("like", func(pattern, value any) (any, error) {
			return comparePattern(pattern, value, patternRules{all: '%', one: '_', fold: true})
		}, true),
		raw.RegisterFunc("like", func(pattern, value, escape any) (any, error) {
			text, ok := asText(escape)
			if !ok {
				return nil, nil
			}
			r, n := utf8.DecodeRuneInString(text)
			if n == 0 || n != len(text) {
				return nil, errEscape
			}
			rules := patternRules{all: '%', one: '_', other: r, fold: true}
			switch r {
			case '%':
				rules.all = 0
			case '_':
				rules.one = 0
			}
			return comparePattern(pattern, value, rules)
		}, true),
		raw.RegisterFunc("glob", func(pattern, value any) (any, error) {
			return comparePattern(pattern, value, patternRules{all: '*', one: '?', other: '[', set: true})
		}, true))
}

// patternRules tell LIKE and GLOB apart.
type patternRules struct {
	all, one rune // match any number of characters, and any one
	other    rune // begins a set, or escapes the next character; 0: nothing does
	set      bool // other begins a set
	fold     bool // upper and lower case of ASCII letters are the same
}

func comparePattern(pattern, value any, rules patternRules) (any, error) {
	p, ok := asText(pattern)
	s, ok2 := asText(value)
	if !ok || !ok2 {
		return nil, nil
	}
	if len(p) > maxLikePattern {
		return nil, errPattern
	}
	p, _, _ = strings.Cut(p, "\x00") // SQLite reads both to the first NUL
	s, _, _ = strings.Cut(s, "\x00")
	m := matcher{patternRules: rules, steps: stepsPerByte * (len(p) + len(s) + 64)}
	outcome := m.match(p, s)
	switch {
	case m.steps < 0:
		return nil, errPattern
	case outcome == matches:
		return int64(1), nil
	}
	return int64(0), nil
}

// The outcomes of a comparison. After matchesNowhere a longer run for an earlier wildcard cannot help.
const (
	matches = iota
	matchesNot
	matchesNowhere
)

type matcher struct {
	patternRules
	steps int // left
}

// next cuts the first character off, 0 at the end.
func next(s string) (rune, string) {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return 0, s
	}
	return charOf(r, n, s[0]), s[n:]
}

// match is SQLite's patternCompare.
func (m *matcher) match(p, s string) int {
	for p != "" {
		if m.steps--; m.steps < 0 {
			return matchesNowhere
		}
		var c, d rune
		c, p = next(p)
		escaped := false
		switch {
		case c == m.all:
			return m.matchAll(p, s)
		case c == m.other && m.set:
			var in bool
			if in, p, s = m.inSet(p, s); !in {
				return matchesNot
			}
			continue
		case c == m.other:
			if c, p = next(p); c == 0 {
				return matchesNot
			}
			escaped = true
		}
		d, s = next(s)
		if c != d && !(m.fold && c < utf8.RuneSelf && d < utf8.RuneSelf && lower(c) == lower(d)) && (c != m.one || escaped || d == 0) {
			return matchesNot
		}
	}
	if s == "" {
		return matches
	}
	return matchesNot
}

// matchAll matches p, which stood after a wildcard, at the first place of s where that is possible.
func (m *matcher) matchAll(p, s string) int {
	for p != "" {
		c, rest := next(p)
		if c == m.one && m.one != 0 {
			if s == "" {
				return matchesNowhere
			}
			_, s = next(s)
		} else if c != m.all {
			break
		}
		p = rest
	}
	if p == "" {
		return matches
	}
	c, _ := next(p)
	if c == m.other && !m.set {
		if _, rest := next(p); rest == "" {
			return matchesNowhere // an escape of nothing
		}
	}
	for s != "" {
		if m.steps--; m.steps < 0 {
			return matchesNowhere
		}
		if outcome := m.match(p, s); outcome != matchesNot {
			return outcome
		}
		_, s = next(s)
	}
	return matchesNowhere
}

// inSet reports whether the first character of s is in the set that p goes on with, and cuts both off.
func (m *matcher) inSet(p, s string) (in bool, _, _ string) {
	c, s := next(s)
	if c == 0 {
		return false, p, s
	}
	var d, prior rune
	d, p = next(p)
	invert := d == '^'
	if invert {
		d, p = next(p)
	}
	if d == ']' {
		in = c == ']'
		d, p = next(p)
	}
	for d != 0 && d != ']' {
		m.steps--
		if d == '-' && p != "" && p[0] != ']' && prior > 0 {
			d, p = next(p)
			in = in || c >= prior && c <= d
			prior = 0
		} else {
			in = in || c == d
			prior = d
		}
		d, p = next(p)
	}
	return d != 0 && in != invert, p, s
}

func lower(c rune) rune {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
