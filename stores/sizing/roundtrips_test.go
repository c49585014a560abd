package sizing_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/dir"
)

const (
	maxRoundTrips = 25 // per interval, for 5,000 open tenants
	intervals     = 3
)

// size is how many tenants are open, and their ttl, a fifth of which is an interval. It is longer than the default,
// so that the round trips are measured on a busy machine too, and not the limit of it: MariaDB needs most
// of a second of a core for 5,000 renewals.
func size() (tenants int, ttl time.Duration) {
	if testing.Short() {
		return 500, 5 * time.Second
	}
	return 5000, 30 * time.Second
}

// One node renews 5,000 open tenants, which were opened one after the other over several intervals, in at most
// 25 round trips per interval.
func TestRoundTrips_OfManyOpenTenants(t *testing.T) {
	tenants, _ := size()
	for _, engine := range []struct {
		name string
		open func(*testing.T) counted
	}{{"NATS", onNATS}, {"PostgreSQL", onPostgres}, {"MariaDB", onMariaDB}, {"SQLite", onSQLite}, {"S3", onS3}} {
		t.Run(engine.name, func(t *testing.T) {
			require.LessOrEqual(t, renew(t, engine.open(t), tenants), int64(maxRoundTrips))
		})
	}
}

// renew opens tenants on a node, prints how many round trips each of some intervals took, and returns the fewest: a
// machine that is busy with something else makes a beat's renewals trickle, and adds round trips; it takes none
// away. An interval is over when as many renewals were answered as there are tenants.
func renew(t *testing.T, leases counted, tenants int) int64 {
	folder := shm(t)
	_, ttl := size()
	durable, err := dir.Open(t.Context(), dir.Config{Root: folder + "/durable", NoSync: true})
	require.NoError(t, err)
	var renewed, fenced atomic.Int64
	ends := make(chan mark, intervals+1)
	n, err := actors.Start(t.Context(), actors.Config{NodeName: "sizing", StateRoot: folder + "/node", Leases: leases.LeaseStore, Durable: durable,
		TTL: ttl, SnapshotEvery: time.Hour, IdleAfter: -1, Log: slog.New(slog.DiscardHandler),
		OnLifecycle: func(e messages.Lifecycle) {
			switch e.Kind {
			case messages.LifecycleRenewed:
				if renewed.Add(1)%int64(tenants) == 0 {
					select {
					case ends <- mark{time.Now(), leases.roundTrips()}:
					default: // nobody counts yet, or any more
					}
				}
			case messages.LifecycleFenced, messages.LifecycleLost:
				fenced.Add(1)
			}
		}})
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Abort()) }()

	begun := time.Now()
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(8)
	for i := range tenants {
		group.Go(func() error { return open(ctx, n, i) })
	}
	require.NoError(t, group.Wait())
	opening := time.Since(begun)
	for drained := false; !drained; { // what ended while tenants were opened is no measure
		select {
		case <-ends:
		default:
			drained = true
		}
	}

	last := <-ends
	var trips []int64
	var lengths []time.Duration
	for range intervals {
		end := <-ends
		trips, lengths = append(trips, end.trips-last.trips), append(lengths, end.at.Sub(last.at).Round(10*time.Millisecond))
		last = end
	}
	t.Logf("%d tenants (opened in %v): round trips per interval: %v; intervals: %v; fenced: %d", tenants, opening.Round(time.Millisecond), trips, lengths, fenced.Load())
	return slices.Min(trips)
}

// mark is the end of an interval.
type mark struct {
	at    time.Time
	trips int64
}

// open opens a tenant. On a busy machine a request may go unanswered: whoever needs the tenant asks again.
func open(ctx context.Context, n *actors.Node, i int) error {
	id, err := messages.DeriveTenant([]byte("0123456789abcdef0123456789abcdef"), "https://idp.example/acme", fmt.Sprint("user-", i))
	if err != nil {
		return err
	}
	for range 5 {
		var tenant *actors.Tenant
		if tenant, err = n.Tenant(ctx, "acme", id); err == nil {
			err = tenant.Open(ctx)
		}
		if !errors.Is(err, messages.ErrUnavailable) {
			break
		}
	}
	return err
}

// shm returns a folder in memory, where there is one: the tenants' own files are not what is measured.
func shm(t *testing.T) string {
	t.Helper()
	if folder, err := os.MkdirTemp("/dev/shm", "leasehold-sizing"); err == nil {
		t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })
		return folder
	}
	return t.TempDir()
}
