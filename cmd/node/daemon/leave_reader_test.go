package daemon

import (
	"context"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/cmd/node/config"
	"github.com/leasehold/leasehold/messages"
)

// slowMember is a membership that cannot hand anything over: nobody answers it.
type slowMember struct{ Member }

func (slowMember) Leave(ctx context.Context) error { <-ctx.Done(); return messages.AsError(ctx.Err()) }

func (slowMember) Depart(context.Context) error { return nil }

// What could not be moved to other members is handed off by the node itself, and loses nothing: moving must not take
// all of the time.
func TestH7_AShutdownHasTimeLeftForHandoffsWhenMovesTakeAllOfTheirs(t *testing.T) {
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) { // a handoff takes none of this time, however slow the machine is
		node, err := actors.Start(t.Context(), actors.Config{StateRoot: root, SnapshotEvery: time.Hour})
		require.NoError(t, err)
		tenant, err := node.Tenant(t.Context(), "acme", "t-3129611eac9be1d5994a2b216b06ed27")
		require.NoError(t, err)
		_, err = tenant.Append(t.Context(), messages.Event{Kind: "k"})
		require.NoError(t, err)
		d := &daemon{Options: Options{Config: config.Config{ShutdownTimeout: 2 * time.Second}, Log: slog.New(slog.DiscardHandler)},
			node: node, member: slowMember{}, http: &http.Server{ReadHeaderTimeout: time.Second}}
		ctx, cancel := context.WithTimeout(t.Context(), d.Config.ShutdownTimeout)
		defer cancel()
		require.NoError(t, d.shutdown(ctx), "nothing was abandoned")
	})
}
