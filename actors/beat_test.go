package actors_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/storetest"
)

// Tenants that were opened at any time are renewed together, in few round trips, and none of them later or less
// often than it would be alone.
func TestL3_ManyTenantsShareTheirRenewals(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		type trip struct {
			at   time.Time
			keys []messages.Key
		}
		trips := make(chan trip, 1000)
		f.leases.Add(func(c storetest.Call) bool {
			if c.Op == storetest.OpRenewMany {
				one := trip{at: time.Now()}
				for _, r := range c.Renewals {
					one.keys = append(one.keys, r.Key)
				}
				trips <- one
			}
			return false
		}, -1, func(storetest.Call) storetest.Action { return storetest.Action{} })

		const tenants, intervals = 60, 20
		n := f.start()
		granted := map[messages.Key]time.Time{}
		for i := range tenants {
			granted[open(t, n, fmt.Sprint("u", i)).Key()] = time.Now()
			time.Sleep(23 * time.Millisecond) // all of it: almost three intervals
		}
		opened := time.Now()
		time.Sleep(intervals * renewEvery)
		synctestWait()
		close(trips)

		const window = renewEvery / 20 // of a batch; a renewal is sent that much after its beat at most
		last, afterwards, renewals := granted, 0, map[messages.Key]int{}
		for one := range trips {
			if one.at.After(opened) {
				afterwards++
			}
			for _, key := range one.keys {
				require.LessOrEqual(t, one.at.Sub(last[key]), renewEvery+window, "the first renewal after the grant, and each after the one before it")
				last[key] = one.at
				if one.at.After(opened) {
					renewals[key]++
				}
			}
		}
		require.LessOrEqual(t, afterwards, intervals*8+1, "8 beats in an interval")
		require.Len(t, renewals, tenants)
		for _, count := range renewals {
			require.InDelta(t, intervals, count, 1, "no tenant is renewed more often than it was asked for")
		}
	})
}
