package ledgeractor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestK5_TheTailIsWhatNoCopyHolds compares the tail with a list of every commit.
func TestK5_TheTailIsWhatNoCopyHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type commit struct {
			version uint64
			at      time.Time
			bytes   int64
		}
		var (
			tail    tail
			commits []commit
			cuts    []uint64 // versions of copies under way, or whose fate is open
			now     = time.Unix(1000, 0)
			version = rapid.Uint64Range(0, 3).Draw(t, "migrations")
			saved   uint64
		)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Second)
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1:
				version++
				commits = append(commits, commit{version, now, int64(version) * 10})
				tail.add(version, now, int64(version)*10)
			case 2:
				if len(cuts) < maxTailParts-1 {
					cuts = append(cuts, version)
					tail.cut()
				}
			case 3:
				if len(cuts) > 0 { // one of them lands, in any order; a later one covers the earlier
					landed := rapid.SampledFrom(cuts).Draw(t, "landed")
					saved = max(saved, landed)
					tail.saved(landed)
				}
			}
			wantSince, wantBytes := time.Time{}, int64(0)
			for _, c := range commits {
				if c.version > saved {
					if wantSince.IsZero() {
						wantSince = c.at
					}
					wantBytes += c.bytes
				}
			}
			since, bytes := tail.oldest()
			require.Equal(t, wantSince, since)
			require.Equal(t, wantBytes, bytes)
		}
	})
}

func TestK5_TheTailStaysSmallWhereNoCopyLands(t *testing.T) {
	var tail tail
	begun := time.Unix(1000, 0)
	for i := range uint64(1000) {
		tail.add(i+1, begun.Add(time.Duration(i)*time.Second), 1)
		tail.cut()
	}
	require.LessOrEqual(t, len(tail.parts), maxTailParts)
	since, bytes := tail.oldest()
	require.Equal(t, begun, since)
	require.EqualValues(t, 1000, bytes)
	tail.saved(999)
	_, bytes = tail.oldest()
	require.EqualValues(t, 1, bytes)
	tail.saved(1000)
	since, bytes = tail.oldest()
	require.Zero(t, since)
	require.Zero(t, bytes)
}
