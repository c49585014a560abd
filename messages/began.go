package messages

import "slices"

// Began says with which seq an epoch began: 0 for the empty ledger. A caller that has seen a later one, of an earlier epoch, has seen
// what is lost.
type Began struct {
	Epoch uint64 `json:"epoch"`
	Seq   int64  `json:"seq"`
}

// maxBegan bounds a list of Began.
const maxBegan = 128

// Begin returns the list for an epoch that continues a ledger with this list. It changes nothing. What no caller can need is left out:
// epochs that began with more than a later one. In a list that would be too long, the two oldest epochs become one that began with
// what the earlier one began with: whoever has seen only what was before them, and has stayed away ever since, may be told of a loss that
// there was not; nobody is told of too little.
func Begin(list []Began, epoch uint64, seq int64) []Began {
	out := slices.DeleteFunc(slices.Clone(list), func(b Began) bool { return b.Seq >= seq })
	if out = append(out, Began{Epoch: epoch, Seq: seq}); len(out) > maxBegan {
		out[1].Seq = out[0].Seq
		out = out[1:]
	}
	return out
}

// Lost reports whether a ledger with this list is without a state that somebody has seen.
func (s Seen) Lost(list []Began) bool {
	return slices.ContainsFunc(list, func(b Began) bool { return b.Epoch > s.Epoch && b.Seq < s.Seq })
}
