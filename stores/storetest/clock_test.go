package storetest_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/stores/storetest"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func TestManualClock(t *testing.T) {
	c := storetest.NewManualClock(noon)
	require.Equal(t, noon, c.Now())
	require.Equal(t, noon.Add(time.Second), c.Advance(time.Second))
	require.NoError(t, c.Pass(t.Context(), time.Second))
	require.Equal(t, noon.Add(2*time.Second), c.Now())
	c.Set(noon.Add(-time.Hour))
	require.Equal(t, noon.Add(-time.Hour), c.Now())

	// A monotonic part would hide that the clock was set back.
	c.Set(time.Now())
	first := c.Now()
	c.Set(time.Now().Add(-time.Hour))
	require.Less(t, c.Now().Sub(first), -time.Minute)
}

func TestTrippingClock(t *testing.T) {
	manual := storetest.NewManualClock(noon)
	c := storetest.NewTrippingClock(manual.Now)
	require.Equal(t, noon, c.Now())

	var tripped []int
	c.TripAt(2, func() {
		tripped = append(tripped, c.Reads())
		manual.Advance(time.Second)                                  // before the reading is taken
		c.TripAt(1, func() { tripped = append(tripped, c.Reads()) }) // a hook may plan
	})
	c.JumpAt(3, -time.Minute)
	require.Equal(t, noon, c.Now())
	require.Empty(t, tripped)
	require.Equal(t, noon.Add(time.Second), c.Now())
	require.Equal(t, noon.Add(time.Second-time.Minute), c.Now())
	require.Equal(t, noon.Add(time.Second-time.Minute), c.Now(), "a jump lasts")
	require.Equal(t, []int{3, 4}, tripped)
	require.Equal(t, 5, c.Reads())
}

func TestTrippingClock_TripsOnceForManyReaders(t *testing.T) {
	c := storetest.NewTrippingClock(time.Now)
	var mu sync.Mutex
	trips := 0
	c.TripAt(50, func() { mu.Lock(); trips++; mu.Unlock() })
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			for range 10 {
				c.Now()
			}
		})
	}
	wg.Wait()
	require.Equal(t, 100, c.Reads())
	require.Equal(t, 1, trips)
}

func TestRealTime_HonoursTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		require.NoError(t, storetest.RealTime{}.Pass(t.Context(), time.Hour))
		require.Equal(t, time.Hour, time.Since(began))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, storetest.RealTime{}.Pass(ctx, time.Hour), context.DeadlineExceeded)
		require.Equal(t, time.Hour+time.Minute, time.Since(began))
	})
}
