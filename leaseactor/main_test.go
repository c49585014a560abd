package leaseactor_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/leaseactor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/planted"
	"github.com/leasehold/leasehold/stores/sqlite"
	"github.com/leasehold/leasehold/stores/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ttl     = 300 * time.Millisecond
	margin  = 60 * time.Millisecond
	timeout = 50 * time.Millisecond
	window  = ttl - margin
	owner   = "node-a#1"
	other   = "node-b#1"
	// tick is the resolution of the store's clock.
	tick = time.Millisecond
)

var key = messages.Key{Org: "acme", Tenant: "t-3129611eac9be1d5994a2b216b06ed27"}

// world is a real lease store in a synctest bubble, with faults in front of it.
type world struct {
	*testing.T
	ctx    context.Context
	real   *sqlite.Store
	faulty *storetest.FaultyLeases
	spent  *leaseactor.Spent
}

// bubble runs f with a fresh lease store in virtual time.
func bubble(t *testing.T, f func(w *world)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		real, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(dir, "leases.db"), NoSync: true})
		require.NoError(t, err)
		w := &world{T: t, ctx: ctx, real: real, faulty: storetest.NewFaultyLeases(real), spent: leaseactor.NewSpent()}
		defer func() {
			w.faulty.DropLate()
			require.NoError(t, real.Close())
		}()
		f(w)
	})
}

func (w *world) config() leaseactor.Config {
	return leaseactor.Config{Store: w.faulty, Key: key, Owner: owner, TTL: ttl, Margin: margin, CallTimeout: timeout,
		Spent: w.spent, Log: slog.New(slog.DiscardHandler)}
}

func (w *world) holder(faults ...planted.Fault) *leaseactor.Holder {
	w.Helper()
	cfg := w.config()
	cfg.Planted = planted.Of(faults...)
	h, err := leaseactor.NewHolder(cfg)
	require.NoError(w, err)
	return h
}

// acquired returns a holder whose lease was granted at this instant.
func (w *world) acquired() *leaseactor.Holder {
	w.Helper()
	h := w.holder()
	lease, err := h.Acquire(w.ctx)
	require.NoError(w, err)
	require.Equal(w, owner, lease.Owner)
	require.NoError(w, h.Fence().Check())
	return h
}

func (w *world) record() messages.Lease {
	w.Helper()
	lease, ok, err := w.real.Read(w.ctx, key)
	require.NoError(w, err)
	require.True(w, ok)
	return lease
}

// live reports whether the store would refuse another owner now.
func (w *world) live() bool { return w.record().End.After(time.Now()) }

// takeover lets another owner have the lease, once it may.
func (w *world) takeover() messages.Lease {
	w.Helper()
	lease, err := w.real.Acquire(w.ctx, key, other, ttl)
	require.NoError(w, err)
	return lease
}

func (w *world) trail(op string) (entries []messages.LeaseEntry) {
	w.Helper()
	all, err := w.real.History(w.ctx, key)
	require.NoError(w, err)
	for _, e := range all {
		if e.Op == op {
			entries = append(entries, e)
		}
	}
	return entries
}

func requireFenced(t testing.TB, err error, reason string, epoch uint64) {
	t.Helper()
	require.ErrorIs(t, err, &messages.Error{Code: messages.CodeFenced, Reason: reason})
	var e *messages.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, key.String(), e.Key)
	require.Equal(t, epoch, e.Epoch)
}
