package actors_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/storetest"
)

// An open that was overtaken finds that its successor's retention has taken what it listed. That is
// no damage.
func TestS5_AnOpenThatWasOvertakenDoesNotReportDamage(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		first := f.start()
		appendKind(t, open(t, first, "u"), "1")
		require.NoError(t, first.Shutdown(t.Context()))

		slow := f.start(func(c *actors.Config) { c.DurableTimeout = time.Hour })
		image := false // the gate is for the image, not for the pin
		reached, release := make(chan struct{}), make(chan struct{})
		f.durable.Add(func(c storetest.Call) bool {
			hit := c.Op == storetest.OpGet && !image && len(c.Key) > 3 && c.Key[len(c.Key)-3:] == ".db"
			image = image || hit
			return hit
		}, 1, func(storetest.Call) storetest.Action { close(reached); return storetest.Action{Gate: release} })
		overtaken := make(chan error, 1)
		go func() {
			_, err := slow.Tenant(within(t, time.Hour), "acme", tenantID(t, "u"))
			overtaken <- err
		}()
		<-reached
		f.leases.Add(func(c storetest.Call) bool {
			return c.Owner == slow.Owner() || (c.Op == storetest.OpRenewMany && c.Renewals[0].Owner == slow.Owner())
		}, -1, func(storetest.Call) storetest.Action { return storetest.Fail(nil) })
		time.Sleep(ttl)
		next := open(t, f.start(), "u")
		appendKind(t, next, "2")
		_, err := next.Snapshot(t.Context())
		require.NoError(t, err)
		time.Sleep(2 * renewEvery)
		require.NotContains(t, f.objects(next.Key()), next.Key().ImageName(1, 1), "the successor's retention has taken it")

		close(release)
		require.ErrorIs(t, <-overtaken, messages.ErrFenced)
		for _, e := range f.lifecycle(messages.LifecycleFailed) {
			require.NotEqual(t, messages.CodeCorrupt, e.Code)
		}
		require.Equal(t, []string{"1", "2"}, kinds(t, next))
	})
}
