package actors

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors/machine"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/dir"
	"github.com/leasehold/leasehold/stores/sqlite"
	"github.com/leasehold/leasehold/stores/storetest"
)

// The grant of an open that was given up meanwhile is handed back, and nothing is made in its epoch. What gives it up is in the
// tenant's mailbox when the grant comes; the tenant is held up meanwhile by somebody who does not take his answer.
func TestD9_AGrantThatMeetsAnOpenThatWasGivenUpIsHandedBack(t *testing.T) {
	for name, giveUp := range map[string]func(context.Context) (msg any, answer chan outcome){
		"it took too long": func(context.Context) (any, chan outcome) { return elapsed{machine.OpenTimeout}, nil },
		"a shutdown": func(ctx context.Context) (any, chan outcome) {
			o := newOrder(ctx, machine.Handoff, machine.Shutdown)
			return o, o.reply
		},
	} {
		for when, granted := range map[string]bool{"the grant is behind it": true, "the grant is not there yet": false} {
			t.Run(name+", "+when, func(t *testing.T) {
				root := t.TempDir()
				synctest.Test(t, func(t *testing.T) {
					real, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(root, "leases.db"), NoSync: true})
					require.NoError(t, err)
					defer func() { require.NoError(t, real.Close()) }()
					durable, err := dir.Open(t.Context(), dir.Config{Root: filepath.Join(root, "durable"), NoSync: true})
					require.NoError(t, err)
					leases := storetest.NewFaultyLeases(real)
					n, err := Start(t.Context(), Config{Leases: leases, Durable: durable, StateRoot: filepath.Join(root, "n"), NodeName: "n",
						IdleAfter: -1, Log: slog.New(slog.DiscardHandler)})
					require.NoError(t, err)
					defer func() { _ = n.Abort() }()
					id, err := messages.DeriveTenant([]byte(strings.Repeat("k", 32)), "https://idp.example", "u")
					require.NoError(t, err)
					tenant := &Tenant{node: n, key: messages.Key{Org: "acme", Tenant: id}}
					reached, open := leases.GateNext(storetest.OpAcquire)
					opened := make(chan error, 1)
					go func() { opened <- tenant.Open(t.Context()) }()
					<-reached
					act, ok := n.active.Load(tenant.key)
					require.True(t, ok)
					ref, untaken := act.(*activation).ref, make(chan Status)
					ref.Send(statusOf{untaken})
					synctest.Wait()
					msg, answer := giveUp(t.Context())
					ref.Send(msg)
					if granted {
						open()
					}
					synctest.Wait()
					<-untaken
					synctest.Wait()
					open()
					require.Error(t, <-opened)
					if answer != nil {
						require.NoError(t, (<-answer).err, "nothing is lost")
					}
					synctest.Wait()
					require.False(t, n.Has(tenant.key))
					lease, _, err := real.Read(t.Context(), tenant.key)
					require.NoError(t, err)
					require.EqualValues(t, 1, lease.Epoch)
					require.False(t, lease.End.After(time.Now()), "nobody has to wait it out")
					require.False(t, lease.HasLineage())
					names, err := durable.List(t.Context(), tenant.key.Prefix())
					require.NoError(t, err)
					require.Empty(t, names)
					require.NoError(t, tenant.Open(t.Context()))
					require.EqualValues(t, 2, n.epochOf(tenant.key))
				})
			})
		}
	}
}

func (n *Node) epochOf(key messages.Key) uint64 {
	act, _ := n.active.Load(key)
	return act.(*activation).epoch.Load()
}
