package cluster

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
)

func TestALeaseIsUnchangedForAsLongAsItIsLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSightings(time.Now)
		lease := messages.Lease{Key: keys(t, 1)[0], Owner: "a#1", Epoch: 3, TTL: 3 * time.Second, End: time.Now()}
		require.Zero(t, s.unchanged(lease))
		for i := range 5 {
			time.Sleep(3 * time.Second)
			require.Equal(t, time.Duration(i+1)*3*time.Second, s.unchanged(lease))
		}
		s.begin()
		require.Zero(t, s.unchanged(lease), "nobody could look meanwhile")
		time.Sleep(time.Second)
		require.Equal(t, time.Second, s.unchanged(lease))
		lease.End = lease.End.Add(1)
		require.Zero(t, s.unchanged(lease), "it was renewed")
		time.Sleep(time.Second)
		lease.Epoch++
		require.Zero(t, s.unchanged(lease), "it was granted anew")
		time.Sleep(rememberMove)
		s.sweep()
		require.Len(t, s.keys, 1)
		time.Sleep(time.Nanosecond)
		s.sweep()
		require.Empty(t, s.keys)
	})
}
