package sizing_test

import (
	"context"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/stores"
	"github.com/leasehold/leasehold/stores/mysql"
	"github.com/leasehold/leasehold/stores/nats"
	"github.com/leasehold/leasehold/stores/nats/natsserver"
	"github.com/leasehold/leasehold/stores/postgres"
	"github.com/leasehold/leasehold/stores/s3"
	"github.com/leasehold/leasehold/stores/s3/s3test"
	"github.com/leasehold/leasehold/stores/sqlite"
	"github.com/leasehold/leasehold/stores/storetest/servers"
)

// counted is a lease store, and how many round trips it has made since it was opened.
type counted struct {
	stores.LeaseStore
	roundTrips func() int64
}

// A binding that counts itself.
type counter interface {
	stores.LeaseStore
	RoundTrips() int64
	Close() error
}

func countedBy(t *testing.T, s counter, err error) counted {
	t.Helper()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return counted{s, s.RoundTrips}
}

func onNATS(t *testing.T) counted {
	server, err := natsserver.Start(t.Context(), natsserver.Config{Dir: shm(t)})
	require.NoError(t, err)
	t.Cleanup(server.Shutdown)
	s, err := nats.OpenLeases(t.Context(), nats.Config{URL: server.URL(), SyncAlways: true})
	return countedBy(t, s, err)
}

func onPostgres(t *testing.T) counted {
	server := servers.ForTest(t, func(ctx context.Context) (*servers.Server, error) { return servers.PostgreSQL(ctx) })
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	s, err := postgres.Open(t.Context(), postgres.Config{DSN: server.DSN("", ""), Migrate: true})
	return countedBy(t, s, err)
}

func onMariaDB(t *testing.T) counted {
	server := servers.ForTest(t, func(ctx context.Context) (*servers.Server, error) { return servers.MariaDB(ctx) })
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	require.NoError(t, server.Exec(t.Context(), "", "CREATE DATABASE leases"))
	s, err := mysql.Open(t.Context(), mysql.Config{DSN: server.DSN("", "leases"), Migrate: true})
	return countedBy(t, s, err)
}

// transactions counts what the SQLite binding, which has no wire, does with a renewal or many: one
// transaction.
type transactions struct {
	*sqlite.Store
	n atomic.Int64
}

func (c *transactions) RoundTrips() int64 { return c.n.Load() }

func (c *transactions) RenewMany(ctx context.Context, renewals []stores.Renewal) ([]stores.RenewalResult, error) {
	c.n.Add(1)
	return c.Store.RenewMany(ctx, renewals)
}

func onSQLite(t *testing.T) counted {
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(shm(t), "leases.db")})
	return countedBy(t, &transactions{Store: s}, err)
}

// onS3 counts the requests on their way to the server.
func onS3(t *testing.T) counted {
	proxy := s3test.NewProxy(t, s3test.Start(t))
	var requests atomic.Int64
	proxy.Decide(func(*http.Request) s3test.Fate {
		requests.Add(1)
		return s3test.Pass
	})
	b, err := s3.Open(t.Context(), s3.Config{Bucket: s3test.Bucket, Region: s3test.Region, Endpoint: proxy.Endpoint, PathStyle: true,
		AccessKeyID: s3test.AccessKey, SecretAccessKey: s3test.SecretKey})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	leases, err := b.Leases(t.Context(), s3.LeaseConfig{})
	require.NoError(t, err)
	return counted{leases, requests.Load}
}
