package sqltest

import (
	"context"
	"database/sql"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
	"github.com/leasehold/leasehold/stores/storetest"
	"github.com/leasehold/leasehold/stores/storetest/servers"
)

// Store is what a binding opens.
type Store interface {
	stores.LeaseStore
	stores.DeploymentKeeper
	stores.BatchRenewer
	stores.LeaseLister
	io.Closer
}

// Options is what the tests vary of a binding's Config.
type Options struct {
	Migrate      bool
	KeepRenewals int
	MaxConns     int
	Timeout      time.Duration
}

// Subject describes a binding.
type Subject struct {
	// Open opens a store as the user of a DSN.
	Open func(ctx context.Context, dsn string, o Options) (Store, error)
	// Database makes a new, empty database on a server that all tests share.
	Database func(t testing.TB) (server *servers.Server, name string)
	// Private starts a server that a test may harm, with a database "test".
	Private func(t testing.TB) *servers.Server
	// Node makes a user with the documented grants on the store of a database, and returns its name.
	Node func(t testing.TB, server *servers.Server, name string) string
	// Driver is the name of the driver for connections as other programs have them, and Prefix what
	// stands before the names of tables in their statements.
	Driver, Prefix string
	// Key is how the column key is written.
	Key string
	// Refused reports whether an error is a refusal by the rules of the tables, and Denied whether it is a
	// lack of rights.
	Refused, Denied func(error) bool
	// Attacks are statements beside the common ones that the tables must refuse; Forbidden those that a
	// node's user must not be able to run.
	Attacks, Forbidden map[string]string
	// Modes are statements that prepare a session of an attacker; "" is a session as it comes.
	Modes []string
}

// Run runs every test of the package.
func Run(t *testing.T, s Subject) {
	t.Run("Conformance", s.testConformance)
	t.Run("E_SixProcesses", s.testRace)
	t.Run("B3", s.testAttacks)
	t.Run("Grants", s.testGrants)
	t.Run("B4_Retention", s.testRetention)
	t.Run("B4_Contention", s.testContention)
	t.Run("Batches", s.testBatches)
	t.Run("RoundTrips", s.testRoundTrips)
	t.Run("Migrate", s.testMigrate)
	t.Run("Context", s.testContext)
	t.Run("Close", s.testClose)
	t.Run("LostConnections", s.testLostConnections)
	t.Run("Killed", s.testKilled)
	t.Run("Frozen", s.testFrozen)
}

// open opens a store and closes it after the test.
func (s Subject) open(t testing.TB, dsn string, o Options) Store {
	t.Helper()
	store, err := s.Open(t.Context(), dsn, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return store
}

// fresh is a store in a database of its own, as its owner.
func (s Subject) fresh(t testing.TB, o Options) (store Store, dsn string) {
	t.Helper()
	server, name := s.Database(t)
	o.Migrate = true
	dsn = server.DSN("", name)
	return s.open(t, dsn, o), dsn
}

// raw is a connection as any other program would have it.
func (s Subject) raw(t testing.TB, dsn string) *sql.Conn {
	t.Helper()
	db, err := sql.Open(s.Driver, dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return conn
}

// proxied puts a proxy before a server.
func proxied(t testing.TB, server *servers.Server, user, name string) (*servers.Proxy, string) {
	t.Helper()
	proxy, err := servers.NewProxy(server.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxy.Close()) })
	return proxy, server.DSNVia(proxy.Addr(), user, name)
}

func (s Subject) testConformance(t *testing.T) {
	server, name := s.Database(t)
	owner := s.open(t, server.DSN("", name), Options{Migrate: true})
	t.Run("B1_AsAnOwner", func(t *testing.T) { storetest.LeaseStore(t, owner, storetest.RealTime{}) })
	t.Run("B1_AsANode", func(t *testing.T) {
		node := s.open(t, server.DSN(s.Node(t, server, name), name), Options{})
		storetest.LeaseStore(t, node, storetest.RealTime{})
	})
	// The suite can fail on this store too.
	t.Run("C1", func(t *testing.T) {
		require.NotEmpty(t, storetest.CheckLeases(t.Context(), storetest.NoCompareAndSet(owner), storetest.RealTime{}))
	})
}

func (s Subject) testRace(t *testing.T) {
	server, name := s.Database(t)
	store := s.open(t, server.DSN("", name), Options{Migrate: true})
	storetest.Race(t, storetest.RaceConfig{Target: server.DSN(s.Node(t, server, name), name), Store: store, TTL: 5 * time.Second})
}

// Several stores take turns at one key: every grant has an epoch of its own, and none is missing.
func (s Subject) testContention(t *testing.T) {
	const workers, rounds = 6, 10
	first, dsn := s.fresh(t, Options{})
	key := storetest.NewKey()
	var wg sync.WaitGroup
	var mu sync.Mutex
	owners := map[uint64]string{}
	for w := range workers {
		store := first
		if w%2 == 0 {
			store = s.open(t, dsn, Options{})
		}
		owner := string(rune('a' + w))
		wg.Go(func() {
			for n := 0; n < rounds; {
				lease, err := store.Acquire(t.Context(), key, owner, time.Hour)
				if messages.CodeOf(err) == messages.CodeHeld {
					continue
				}
				if err != nil {
					t.Errorf("acquire: %v", err)
					return
				}
				mu.Lock()
				if before, taken := owners[lease.Epoch]; taken {
					t.Errorf("epoch %d was granted to %s and %s", lease.Epoch, before, owner)
				}
				owners[lease.Epoch] = owner
				mu.Unlock()
				if err := store.Release(t.Context(), key, owner, lease.Epoch); err != nil {
					t.Errorf("release: %v", err)
					return
				}
				n++
			}
		})
	}
	wg.Wait()
	require.Len(t, owners, workers*rounds)
	trail, err := first.History(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, uint64(workers*rounds), checkTrail(t, trail))
}

// checkTrail is line B4: the acquire epochs are 1, 2, 3, … It returns the last.
func checkTrail(t testing.TB, trail []messages.LeaseEntry) (epoch uint64) {
	t.Helper()
	for i, e := range trail {
		if e.Op == messages.OpAcquire {
			epoch++
		}
		require.Equal(t, epoch, e.Epoch)
		if i > 0 {
			require.Greater(t, e.Seq, trail[i-1].Seq)
			require.False(t, e.At.Before(trail[i-1].At), "the store's time went back")
		}
	}
	return epoch
}

func (s Subject) testMigrate(t *testing.T) {
	server, name := s.Database(t)
	dsn := server.DSN("", name)
	_, err := s.Open(t.Context(), dsn, Options{})
	require.ErrorIs(t, err, messages.ErrNotFound, "no schema, and not told to make it")
	_, err = s.Open(t.Context(), dsn, Options{KeepRenewals: 5})
	require.ErrorIs(t, err, messages.ErrInvalidArgument)
	_, err = s.Open(t.Context(), server.DSN("", "nowhere"), Options{Migrate: true})
	require.ErrorIs(t, err, messages.ErrNotFound)
	_, err = s.Open(t.Context(), server.DSN("stranger", name), Options{})
	require.ErrorIs(t, err, messages.ErrUnauthorized)

	// Of several that start at once, one creates it.
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			store, err := s.Open(t.Context(), dsn, Options{Migrate: true, Timeout: time.Minute})
			if err != nil {
				t.Errorf("open: %v", err)
				return
			}
			_, err = store.Acquire(t.Context(), storetest.NewKey(), "a", time.Second)
			if err := firstError(err, store.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	leases, err := s.open(t, dsn, Options{}).Leases(t.Context(), "", 100)
	require.NoError(t, err)
	require.Len(t, leases, 6)
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
