package actors

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors/machine"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

// The goroutine that drains a ledger may be held up until its drain is long over. Only a message of
// our own can stand for that without a race of schedulers.
func TestH1_TheLateEndOfAnEarlierDrainIsNotTakenForThisOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, err := Start(t.Context(), Config{StateRoot: t.TempDir(), NodeName: "n", IdleAfter: -1, SnapshotEvery: time.Hour, Log: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		defer func() { _ = n.Abort() }()
		id, err := messages.DeriveTenant([]byte(strings.Repeat("k", 32)), "https://idp.example", "u")
		require.NoError(t, err)
		tenant, err := n.Tenant(t.Context(), "acme", id)
		require.NoError(t, err)
		require.NoError(t, tenant.Open(t.Context()))
		_, err = tenant.Snapshot(t.Context())
		require.NoError(t, err)
		busy, free := make(chan struct{}), make(chan struct{})
		ran, handed := make(chan error, 1), make(chan error, 1)
		go func() {
			ran <- tenant.Run(t.Context(), func(*ledgeractor.Tx) error { close(busy); <-free; return nil })
		}()
		<-busy
		go func() { handed <- tenant.Handoff(t.Context()) }()
		synctest.Wait()
		act, ok := n.active.Load(tenant.Key())
		require.True(t, ok)
		act.(*activation).ref.Send(ofDrain{&drain{}, machine.Drained{}})
		synctest.Wait()
		close(free)
		require.NoError(t, <-ran, "work in flight finishes and is acknowledged")
		require.NoError(t, <-handed)
	})
}
