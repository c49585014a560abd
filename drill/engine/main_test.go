package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/drill/engine"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/storetest/servers"
)

// TestMain lets the test binary be a server.
func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == "server" {
		err := engine.Serve(context.Background(), engine.Kind(os.Args[2]), os.Args[3], os.Args[4], os.Stdin, os.Stdout)
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

var key = messages.Key{Org: "acme", Tenant: "t-3129611eac9be1d5994a2b216b06ed27"}

// start starts the servers of a kind for a test; a server that is not installed is a skip, and under CI a failure.
func start(t *testing.T, s engine.Stores) (engine.Stores, engine.Servers) {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	where, running, err := engine.Start(t.Context(), s, t.TempDir(), []string{exe, "server"})
	if errors.Is(err, servers.ErrNotInstalled) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, running.Stop()) })
	require.NoError(t, where.Validate())
	return where, running
}

// TestServersKeepWhatTheyAcknowledged: every kind of server grants a lease and stores an object, is killed and
// started again at the same address, and has both. Then it is stopped: nothing is answered, and after that everything is.
func TestServersKeepWhatTheyAcknowledged(t *testing.T) {
	for _, kinds := range [][2]engine.Kind{
		{engine.NATS, engine.NATS}, {engine.S3, engine.S3}, {engine.Postgres, engine.Dir}, {engine.MySQL, engine.Dir},
	} {
		t.Run(string(kinds[0]), func(t *testing.T) {
			t.Parallel()
			where, running := start(t, engine.Stores{Leases: engine.Store{Kind: kinds[0]}, Durable: engine.Store{Kind: kinds[1], At: t.TempDir()}})
			require.Len(t, running, 1, "one server has both")
			leases, err := where.OpenLeases(t.Context())
			require.NoError(t, err)
			defer func() { require.NoError(t, leases.Close()) }()
			objects, err := where.OpenDurable(t.Context())
			require.NoError(t, err)
			defer func() { require.NoError(t, objects.Close()) }()
			granted, err := leases.Acquire(t.Context(), key, "a#1", time.Hour)
			require.NoError(t, err)
			created, err := objects.PutIfAbsent(t.Context(), key.ImageName(1, 1), []byte("image"))
			require.NoError(t, err)
			require.True(t, created)

			require.NoError(t, running[0].Kill())
			short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			_, _, err = leases.Read(short, key)
			require.ErrorIs(t, err, messages.ErrUnavailable)
			require.NoError(t, running[0].Start(t.Context()))
			require.Eventually(t, func() bool {
				lease, ok, err := leases.Read(t.Context(), key)
				return err == nil && ok && lease.Owner == "a#1" && lease.Epoch == granted.Epoch
			}, time.Minute, 10*time.Millisecond)
			data, ok, err := objects.Get(t.Context(), key.ImageName(1, 1), 1<<30)
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, "image", string(data))

			require.NoError(t, running[0].Pause())
			require.Eventually(t, func() bool { // a signal takes effect some time after it was sent
				stopped, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				defer cancel()
				_, _, err := leases.Read(stopped, key)
				return errors.Is(err, messages.ErrUnavailable)
			}, time.Minute, 10*time.Millisecond)
			require.NoError(t, running[0].Resume())
			require.Eventually(t, func() bool {
				trail, err := leases.History(t.Context(), key)
				return err == nil && len(trail) == 1 && trail[0].Op == messages.OpAcquire
			}, time.Minute, 10*time.Millisecond)
		})
	}
}

// TestAWireIsCutAlone: every kind of server is reached by way of a wire, and one that is cut off says so, while
// another one goes on.
func TestAWireIsCutAlone(t *testing.T) {
	for _, kinds := range [][2]engine.Kind{
		{engine.NATS, engine.NATS}, {engine.S3, engine.S3}, {engine.Postgres, engine.Dir}, {engine.MySQL, engine.Dir},
	} {
		t.Run(string(kinds[0]), func(t *testing.T) {
			t.Parallel()
			where, running := start(t, engine.Stores{Leases: engine.Store{Kind: kinds[0]}, Durable: engine.Store{Kind: kinds[1], At: t.TempDir()}})
			connect := func() (engine.LeaseStore, *engine.Wire) {
				at, wire, err := running.Connect(where)
				require.NoError(t, err)
				require.NotEqual(t, where.Leases.At, at.Leases.At)
				if !kinds[1].HasServer() {
					require.Equal(t, where.Durable, at.Durable)
				}
				t.Cleanup(func() { require.NoError(t, wire.Close()) })
				leases, err := at.OpenLeases(t.Context())
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, leases.Close()) })
				return leases, wire
			}
			ours, wire := connect()
			theirs, other := connect()
			require.Zero(t, wire.Hits())
			_, err := ours.Acquire(t.Context(), key, "a#1", time.Hour)
			require.NoError(t, err)

			wire.Set(servers.Faults{Refuse: true})
			wire.Cut()
			short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			_, _, err = ours.Read(short, key)
			require.ErrorIs(t, err, messages.ErrUnavailable)
			require.Positive(t, wire.Hits().Connections)
			lease, ok, err := theirs.Read(t.Context(), key)
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, "a#1", lease.Owner)
			require.Zero(t, other.Hits())

			wire.Set(servers.Faults{})
			require.Eventually(t, func() bool {
				_, ok, err := ours.Read(t.Context(), key)
				return err == nil && ok
			}, time.Minute, 10*time.Millisecond)
		})
	}
}

func TestStartRefuses(t *testing.T) {
	_, _, err := engine.Start(t.Context(), engine.Stores{Leases: engine.Store{Kind: "stone"}}, t.TempDir(), nil)
	require.ErrorContains(t, err, "stone")
	require.Error(t, engine.Serve(t.Context(), engine.Postgres, t.TempDir(), "127.0.0.1:0", nil, nil))
	require.Error(t, engine.Serve(t.Context(), engine.NATS, t.TempDir(), "nowhere", nil, nil))

	// A child that ends by itself is an error, and leaves nothing behind.
	_, running, err := engine.Start(t.Context(), engine.Stores{Leases: engine.Store{Kind: engine.NATS}}, t.TempDir(), []string{"/bin/false"})
	require.ErrorContains(t, err, "ended by itself")
	require.Empty(t, running)
}

// Stores that need no server are where they are said to be.
func ExampleStart() {
	where, running, err := engine.Start(context.Background(), engine.Stores{
		Leases:  engine.Store{Kind: engine.SQLite, At: "leases.db"},
		Durable: engine.Store{Kind: engine.Dir, At: "copies"},
	}, "servers", nil)
	fmt.Println(where.Leases.At, where.Durable.At, len(running), err)
	// Output: leases.db copies 0 <nil>
}
