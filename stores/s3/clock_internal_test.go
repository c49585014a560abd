package s3

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// serverClock is a server whose clock is ahead of this process's by a fixed offset.
type serverClock struct {
	now    time.Time
	offset time.Duration
}

// write is one version: sent now, written after there, answered after there and back; stamped in whole seconds.
func (s *serverClock) write(c *clock, there, back time.Duration) {
	sent := s.now
	stamp := s.now.Add(there).Add(s.offset).Truncate(time.Second)
	s.now = s.now.Add(there + back)
	c.sample(stamp, sent, s.now)
}

func (s *serverClock) error(c *clock) time.Duration {
	return c.read(s.now).Sub(s.now.Add(s.offset)).Abs()
}

var processStart = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func calibrated(offset, there, back time.Duration) (*serverClock, *clock) {
	s := &serverClock{now: processStart, offset: offset}
	c := newClock(func() time.Time { return s.now })
	for range 120 { // a good second, as calibrate does
		s.write(c, there, back)
		s.now = s.now.Add(tickPause)
	}
	c.settleDown(s.now)
	return s, c
}

func TestTheClockIsFoundToAFewRoundTrips(t *testing.T) {
	for _, offset := range []time.Duration{0, 137 * time.Millisecond, 999 * time.Millisecond, -400 * time.Millisecond, time.Hour + 501*time.Millisecond} {
		for _, way := range [][2]time.Duration{{time.Millisecond, time.Millisecond}, {9 * time.Millisecond, time.Millisecond}, {0, 20 * time.Millisecond}} {
			s, c := calibrated(offset, way[0], way[1])
			require.Less(t, s.error(c), tickPause+2*(way[0]+way[1]), "offset %v, there and back %v", offset, way)
		}
	}
}

func TestTheClockFollowsDriftWithoutAJump(t *testing.T) {
	s, c := calibrated(300*time.Millisecond, time.Millisecond, time.Millisecond)
	for i := range 24 * 60 { // a day of samples, one each minute, at any phase of the second, of a clock 50 ppm fast
		for range 60 {
			before := c.read(s.now)
			s.now, s.offset = s.now.Add(time.Second), s.offset+50*time.Microsecond
			step := c.read(s.now).Sub(before)
			require.InDelta(t, float64(time.Second), float64(step), float64(3*time.Millisecond))
		}
		s.now = s.now.Add(time.Duration(i*37%1000) * time.Millisecond)
		s.write(c, time.Millisecond, time.Millisecond)
		require.Less(t, s.error(c), 700*time.Millisecond)
	}
}

func TestTheClockTakesOverAClockThatWasSet(t *testing.T) {
	for _, jump := range []time.Duration{time.Hour, -time.Hour} {
		s, c := calibrated(0, time.Millisecond, time.Millisecond)
		s.offset += jump
		s.write(c, time.Millisecond, time.Millisecond)
		require.LessOrEqual(t, s.error(c), resolution)
	}
}

func TestTheClockAsksForASampleOnceAMinute(t *testing.T) {
	s, c := calibrated(0, time.Millisecond, time.Millisecond)
	require.False(t, c.due(s.now))
	s.now = s.now.Add(stale)
	require.True(t, c.due(s.now))
	require.False(t, c.due(s.now), "one is on its way")
	s.now = s.now.Add(stale)
	require.True(t, c.due(s.now), "it never came")
}
