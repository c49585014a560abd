package client

import (
	"slices"
	"sync"
	"time"
)

const (
	// hedgeShare is how many of a hundred requests may be hedged, over time.
	hedgeShare = 10
	// hedgeBurst is how many may be at once: what was in flight at a server that has ended is lost together.
	hedgeBurst = 50
	// maxQuestions bounds the questions about silent owners that are under way at a time: where members are slow to answer,
	// because the lease store is, that is few in a second.
	maxQuestions = 8
	// hedgeCeiling times Config.HedgeAfter, over two, is the longest time after which a request is hedged.
	hedgeCeiling = 5
	// hedgePercentile of the recent answers are there before a request is hedged (Dean and Barroso).
	hedgePercentile = 95
	// remembered is how many answers the percentile is taken of, and recount after how many it is taken anew.
	remembered, recount = 256, 16
	// maxHeard bounds of how many owners it is remembered when they answered: far more than a cluster has members.
	maxHeard = 1024
)

// budget says how often, and how early, requests are hedged. It holds what a client has measured; a lock of its own,
// because all requests of a client share it.
type budget struct {
	floor time.Duration // below 0: never

	mu        sync.Mutex
	hundreds  int // of a hedge that may be begun: each request adds hedgeShare, each hedge takes 100
	questions int // about silent owners, under way
	took      [remembered]time.Duration
	answers   int
	after     time.Duration
	heard     map[string]time.Time // when an owner answered last
	stats     Stats
}

func newBudget(floor time.Duration) *budget {
	return &budget{floor: floor, after: floor, hundreds: 100 * hedgeBurst, heard: make(map[string]time.Time)}
}

// requested counts a request, which pays for a part of a hedge.
func (b *budget) requested() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stats.Requests++
	b.hundreds = min(b.hundreds+hedgeShare, 100*hedgeBurst)
}

// delay is how long an attempt is waited for before it is hedged.
func (b *budget) delay() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.after
}

// patience is how long the question of a hedge is waited for: longer than a member looks for the owner, so that a slow lease
// store is not asked again and again.
func (b *budget) patience() time.Duration { return b.floor * hedgeCeiling / 2 }

// answered takes note of an owner's answer, and how long it took.
func (b *budget) answered(owner string, now time.Time, took time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known := b.heard[owner]; !known && len(b.heard) >= maxHeard {
		for any := range b.heard { // one that is forgotten counts as silent
			delete(b.heard, any)
			break
		}
	}
	b.heard[owner] = now
	b.took[b.answers%remembered] = took
	if b.answers++; b.answers%recount != 0 || b.floor < 0 {
		return
	}
	recent := slices.Sorted(slices.Values(b.took[:min(b.answers, remembered)]))
	b.after = min(max(recent[len(recent)*hedgePercentile/100], b.floor), b.floor*hedgeCeiling/2)
}

// silent reports whether an owner has answered nothing since a moment.
func (b *budget) silent(owner string, since time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.heard[owner].Before(since)
}

// take pays for a hedge, and reports whether enough was left.
func (b *budget) take() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.hundreds < 100 {
		return false
	}
	b.hundreds -= 100
	return true
}

// question begins one that costs nothing, and reports whether there are not too many; asked ends it.
func (b *budget) question() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.questions >= maxQuestions {
		return false
	}
	b.questions++
	return true
}

func (b *budget) asked() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.questions--
}

// count adds to one of the stats.
func (b *budget) count(which func(*Stats) *uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	*which(&b.stats)++
}
