package s3

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// memberSet is a set of member numbers of a renewal log, from 1, as ranges that are sorted and do not touch. It is
// written as text, "1-311,318": a log whose members are renewed in the order in which they came is short.
type memberSet []memberRange

type memberRange struct{ first, last int }

// membersOf returns the set of some numbers, in any order.
func membersOf(numbers ...int) memberSet {
	ranges := make([]memberRange, len(numbers))
	for i, n := range numbers {
		ranges[i] = memberRange{n, n}
	}
	return joined(ranges)
}

// joined sorts ranges and puts together those that touch or overlap.
func joined(ranges []memberRange) memberSet {
	slices.SortFunc(ranges, func(a, b memberRange) int { return cmp.Compare(a.first, b.first) })
	var s memberSet
	for _, r := range ranges {
		if n := len(s); n > 0 && r.first <= s[n-1].last+1 {
			s[n-1].last = max(s[n-1].last, r.last)
		} else {
			s = append(s, r)
		}
	}
	return s
}

func (s memberSet) union(t memberSet) memberSet { return joined(slices.Concat(s, t)) }

// minus returns the numbers of s that are not in t.
func (s memberSet) minus(t memberSet) memberSet {
	var left memberSet
	for _, r := range s {
		for _, cut := range t {
			if cut.last < r.first || cut.first > r.last {
				continue
			}
			if cut.first > r.first {
				left = append(left, memberRange{r.first, cut.first - 1})
			}
			r.first = cut.last + 1
		}
		if r.first <= r.last {
			left = append(left, r)
		}
	}
	return left
}

func (s memberSet) has(n int) bool {
	_, found := slices.BinarySearchFunc(s, n, func(r memberRange, n int) int {
		switch {
		case n < r.first:
			return 1
		case n > r.last:
			return -1
		}
		return 0
	})
	return found
}

func (s memberSet) count() (n int) {
	for _, r := range s {
		n += r.last - r.first + 1
	}
	return n
}

// MarshalText implements encoding.TextMarshaler.
func (s memberSet) MarshalText() ([]byte, error) {
	var text []byte
	for i, r := range s {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, int64(r.first), 10)
		if r.last > r.first {
			text = strconv.AppendInt(append(text, '-'), int64(r.last), 10)
		}
	}
	return text, nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *memberSet) UnmarshalText(text []byte) error {
	*s = nil
	if len(text) == 0 {
		return nil
	}
	for part := range strings.SplitSeq(string(text), ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		first, err := strconv.ParseUint(from, 10, 31)
		last, err2 := strconv.ParseUint(to, 10, 31)
		r := memberRange{int(first), int(last)}
		if err != nil || err2 != nil || r.first < 1 || r.last < r.first || len(*s) > 0 && r.first <= (*s)[len(*s)-1].last+1 {
			return fmt.Errorf("%.40q is no set of member numbers", text)
		}
		*s = append(*s, r)
	}
	return nil
}
