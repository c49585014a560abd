package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/leasehold/leasehold/stores"
	"github.com/leasehold/leasehold/stores/dir"
	"github.com/leasehold/leasehold/stores/mysql"
	"github.com/leasehold/leasehold/stores/nats"
	"github.com/leasehold/leasehold/stores/postgres"
	"github.com/leasehold/leasehold/stores/s3"
	"github.com/leasehold/leasehold/stores/s3/s3test"
	"github.com/leasehold/leasehold/stores/sqlite"
)

// Kind names a kind of store.
type Kind string

// The kinds of stores. SQLite and Dir need no server.
const (
	SQLite   Kind = "sqlite"
	Dir      Kind = "dir"
	NATS     Kind = "nats"
	Postgres Kind = "postgres"
	MySQL    Kind = "mysql"
	S3       Kind = "s3"
)

// LeaseKinds and DurableKinds are the kinds of which there is a lease store, and a durable store.
var (
	LeaseKinds   = []Kind{SQLite, NATS, Postgres, MySQL, S3}
	DurableKinds = []Kind{Dir, NATS, S3}
)

// Names joins kinds for a message.
func Names(kinds []Kind) string {
	var names []string
	for _, k := range kinds {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}

// HasServer reports whether a kind needs a server.
func (k Kind) HasServer() bool { return k != SQLite && k != Dir }

// Slack is how much the times in a kind's audit trail may be off against the clock of this machine. S3 shows whole
// seconds, and its times are estimates (package s3); the others have whole ms.
func (k Kind) Slack() time.Duration {
	if k == S3 {
		return 100 * time.Millisecond
	}
	return 2 * time.Millisecond
}

// Store says where a store is. It travels as JSON.
type Store struct {
	Kind Kind `json:"kind"`
	// At is a path (sqlite, dir), a DSN (postgres, mysql) or a URL (nats, s3).
	At string `json:"at"`
}

// Stores are those of a run.
type Stores struct {
	Leases  Store `json:"leases"`
	Durable Store `json:"durable"`
}

// Validate returns an error for kinds that there are none of.
func (s Stores) Validate() error {
	switch {
	case !slices.Contains(LeaseKinds, s.Leases.Kind):
		return fmt.Errorf("unknown kind of lease store %q; known: %s", s.Leases.Kind, Names(LeaseKinds))
	case !slices.Contains(DurableKinds, s.Durable.Kind):
		return fmt.Errorf("unknown kind of durable store %q; known: %s", s.Durable.Kind, Names(DurableKinds))
	case s.Leases.At == "" || s.Durable.At == "":
		return errors.New("a store without a place")
	}
	return nil
}

// LeaseStore is a lease store that whoever opened it closes.
type LeaseStore interface {
	stores.LeaseStore
	stores.DeploymentKeeper
	io.Closer
}

// DurableStore is a durable store that whoever opened it closes.
type DurableStore interface {
	stores.DurableStore
	io.Closer
}

// keepGrants is more than a run has.
const keepGrants = 100_000

// OpenLeases opens the lease store, and creates what it needs on its server. Its errors are those of the binding.
func (s Stores) OpenLeases(ctx context.Context) (LeaseStore, error) {
	at := s.Leases.At
	switch s.Leases.Kind {
	case SQLite:
		return leases(sqlite.Open(ctx, sqlite.Config{Path: at}))
	case NATS:
		return leases(nats.OpenLeases(ctx, nats.Config{URL: at, SyncAlways: true, KeepEntries: keepGrants}))
	case Postgres:
		return leases(postgres.Open(ctx, postgres.Config{DSN: at, Migrate: true}))
	case MySQL:
		return leases(mysql.Open(ctx, mysql.Config{DSN: at, Migrate: true}))
	case S3:
		b, err := s3.Open(ctx, bucket(at))
		if err != nil {
			return nil, err
		}
		l, err := b.Leases(ctx, s3.LeaseConfig{})
		if err != nil {
			return nil, errors.Join(err, b.Close())
		}
		return s3Leases{l, b}, nil
	}
	return nil, s.Validate()
}

// OpenDurable opens the durable store, as OpenLeases does.
func (s Stores) OpenDurable(ctx context.Context) (DurableStore, error) {
	at := s.Durable.At
	switch s.Durable.Kind {
	case Dir:
		return durable(dir.Open(ctx, dir.Config{Root: at}))
	case NATS:
		return durable(nats.OpenObjects(ctx, nats.Config{URL: at, SyncAlways: true}))
	case S3:
		b, err := s3.Open(ctx, bucket(at))
		if err != nil {
			return nil, err
		}
		return s3Objects{b.Objects(), b}, nil
	}
	return nil, s.Validate()
}

// leases and durable keep a nil pointer from becoming an interface that is not nil.
func leases[S LeaseStore](s S, err error) (LeaseStore, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

func durable[S DurableStore](s S, err error) (DurableStore, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// requestTimeout is to the binding's own (15 s) what the drill's TTL is to a node's: on a connection that falls silent
// nothing but this tells that the answer will not come, and the copies wait for it.
const requestTimeout = 3 * time.Second

func bucket(endpoint string) s3.Config {
	return s3.Config{RequestTimeout: requestTimeout, Bucket: s3test.Bucket, Prefix: "drill/", Region: s3test.Region, Endpoint: endpoint, PathStyle: true,
		AccessKeyID: s3test.AccessKey, SecretAccessKey: s3test.SecretKey}
}

type s3Leases struct {
	*s3.Leases
	io.Closer
}

type s3Objects struct {
	*s3.Objects
	io.Closer
}
