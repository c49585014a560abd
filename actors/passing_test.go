package actors_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/storetest"
)

func TestACallerWhoMeetsAnIdleHandoffWaitsForItsEndAndNoLonger(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start(func(c *actors.Config) {
			c.IdleAfter, c.SnapshotEvery, c.DurableTimeout = time.Minute, time.Hour, time.Minute
		})
		tenant := open(t, n, "u")
		appendKind(t, tenant, "1")
		reached, release := f.durable.GateNext(storetest.OpPut)
		<-reached // the final snapshot of the idle handoff
		done := make(chan error, 1)
		go func() {
			_, err := tenant.Append(within(t, 10*time.Minute), messages.Event{Kind: "2"})
			done <- err
		}()
		time.Sleep(time.Second)
		release()
		begun := time.Now()
		require.NoError(t, <-done)
		require.Less(t, time.Since(begun), 5*time.Second, "it hung until the caller's own deadline")
		require.Equal(t, []string{"1", "2"}, kinds(t, tenant))
		require.EqualValues(t, 2, epoch(t, tenant))
	})
}
