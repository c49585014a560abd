package sim

import (
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// stream returns a source of chances that depends on the seed and on what it is for, and on nothing
// that other goroutines do: the order in which they run cannot move it.
func stream(seed uint64, what string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(what))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// around returns a time between two events whose mean is d.
func around(r *rand.Rand, d time.Duration) time.Duration {
	return min(time.Duration(r.ExpFloat64()*float64(d)), 4*d) + time.Millisecond
}

// between returns a time from a to b.
func between(r *rand.Rand, a, b time.Duration) time.Duration {
	if b <= a {
		return a
	}
	return a + time.Duration(r.Int64N(int64(b-a)))
}
