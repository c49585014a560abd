package sqllease

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

// Dialect is what one kind of database brings.
type Dialect struct {
	// Acquire takes (key, owner, ttl_ms), and Change (key, owner, epoch, op, ttl_ms). Both answer one row:
	// verdict, now_ms, owner, epoch, ttl_ms, end_ms, floor, lineage.
	Acquire, Change string
	// RenewMany takes a JSON array of [key, owner, epoch, ttl_ms], and answers one row with one JSON array of
	// [place in the request, counted from 1, [the row that Change would answer]].
	RenewMany string
	// Read takes (key) and answers at most one row: owner, epoch, ttl_ms, end_ms, floor, lineage. History takes
	// (key): seq, op, at_ms, and then the columns of Read. Leases and Forgotten take (after, limit): key,
	// and then the columns of Read.
	Read, History, Leases, Forgotten string
	// Lock takes (key), locks the record, and answers at most one row: the store's time in ms, which is not before that of the
	// record, and the columns of Read. Clock answers that time where there is no record. Insert and Update write a record by a
	// reseed; both take (owner, epoch, ttl_ms, end_ms, floor, at_ms, lineage, key). They are the owner's of the tables.
	Lock, Clock, Insert, Update string
	// Deployment answers one row, the identity of the deployment. SetDeployment takes (identity) and answers the same.
	Deployment, SetDeployment string
	// Name says where the store is, without secrets.
	Name string
	// Fault says what an error of the driver means.
	Fault func(error) Fault
}

// Fault is the meaning of an error of a driver. The zero Fault is a server that did not answer.
type Fault struct {
	// Retry: the database undid the whole statement because of others (a deadlock, a serialization
	// failure), so it is sent again.
	Retry bool
	// Code is CodeInternal for a change that the rules of the tables refused. Any other is the Cause of
	// the CodeUnavailable that an operation returns, and the code of the error that Open returns.
	Code    messages.Code
	Message string
}

// Store is a lease store on a pool of connections. It is safe for concurrent use.
type Store struct {
	db         *sql.DB
	dialect    Dialect
	timeout    time.Duration
	roundTrips atomic.Int64

	mu       sync.Mutex
	closed   bool
	inFlight sync.WaitGroup
	closeErr error
}

var (
	_ stores.LeaseStore       = (*Store)(nil)
	_ stores.BatchRenewer     = (*Store)(nil)
	_ stores.LeaseLister      = (*Store)(nil)
	_ stores.Reseeder         = (*Store)(nil)
	_ stores.DeploymentKeeper = (*Store)(nil)
)

// New returns a store on db, which it closes. An operation whose context has no earlier deadline is given
// up after timeout.
func New(db *sql.DB, dialect Dialect, timeout time.Duration) *Store {
	return &Store{db: db, dialect: dialect, timeout: timeout}
}

// String says where the store is.
func (s *Store) String() string { return s.dialect.Name }

// RoundTrips returns how many statements the store has sent. What a new connection costs is not in it.
func (s *Store) RoundTrips() int64 { return s.roundTrips.Load() }

// Close refuses what comes after it (CodeClosed), waits for the operations in flight, and closes the
// connections. Closing twice is fine.
func (s *Store) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()
	s.inFlight.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if first {
		s.closeErr = s.db.Close()
	}
	return s.closeErr
}

// Read implements stores.LeaseStore.
func (s *Store) Read(ctx context.Context, key messages.Key) (messages.Lease, bool, error) {
	if err := key.Validate(); err != nil {
		return messages.Lease{}, false, err
	}
	leases, err := query(ctx, s, s.dialect.Read, []any{key.String()}, func(row scanner) (messages.Lease, error) {
		var r record
		err := row.Scan(r.dest()...)
		return r.lease(key), err
	})
	if err != nil || len(leases) == 0 {
		return messages.Lease{}, false, err
	}
	return leases[0], true, nil
}

// Acquire implements stores.LeaseStore.
func (s *Store) Acquire(ctx context.Context, key messages.Key, owner string, ttl time.Duration) (messages.Lease, error) {
	if err := (stores.Renewal{Key: key, Owner: owner, TTL: ttl}).Validate(); err != nil {
		return messages.Lease{}, err
	}
	return s.one(ctx, s.dialect.Acquire, key, key.String(), owner, ttl.Milliseconds())
}

// Renew implements stores.LeaseStore. A renewal with a shorter ttl does not move the end back.
func (s *Store) Renew(ctx context.Context, key messages.Key, owner string, epoch uint64, ttl time.Duration) (messages.Lease, error) {
	if err := (stores.Renewal{Key: key, Owner: owner, TTL: ttl}).Validate(); err != nil {
		return messages.Lease{}, err
	}
	return s.one(ctx, s.dialect.Change, key, key.String(), owner, storedEpoch(epoch), messages.OpRenew, ttl.Milliseconds())
}

// Release implements stores.LeaseStore.
func (s *Store) Release(ctx context.Context, key messages.Key, owner string, epoch uint64) error {
	return s.finish(ctx, key, owner, epoch, messages.OpRelease)
}

// MarkForgotten implements stores.LeaseStore.
func (s *Store) MarkForgotten(ctx context.Context, key messages.Key, owner string, epoch uint64) error {
	return s.finish(ctx, key, owner, epoch, messages.OpForget)
}

// MarkLineage implements stores.LeaseStore.
func (s *Store) MarkLineage(ctx context.Context, key messages.Key, owner string, epoch uint64) error {
	return s.finish(ctx, key, owner, epoch, messages.OpLineage)
}

func (s *Store) finish(ctx context.Context, key messages.Key, owner string, epoch uint64, op string) error {
	if err := stores.ValidateHolder(key, owner); err != nil {
		return err
	}
	_, err := s.one(ctx, s.dialect.Change, key, key.String(), owner, storedEpoch(epoch), op, int64(0))
	return err
}

// one runs a statement that answers with the verdict on one key.
func (s *Store) one(ctx context.Context, statement string, key messages.Key, args ...any) (messages.Lease, error) {
	answers, err := query(ctx, s, statement, args, func(row scanner) (answer, error) {
		var a answer
		err := row.Scan(append([]any{&a.Verdict, &a.NowMS}, a.dest()...)...)
		return a, err
	})
	if err != nil {
		return messages.Lease{}, err
	}
	if len(answers) != 1 {
		return messages.Lease{}, &messages.Error{Code: messages.CodeUnavailable, Key: key.String(), Message: fmt.Sprintf("the lease store answered %d times", len(answers))}
	}
	return answers[0].settle(key)
}

// History implements stores.LeaseStore.
func (s *Store) History(ctx context.Context, key messages.Key) ([]messages.LeaseEntry, error) {
	if err := key.Validate(); err != nil {
		return nil, err
	}
	return query(ctx, s, s.dialect.History, []any{key.String()}, func(row scanner) (messages.LeaseEntry, error) {
		var r record
		var e messages.LeaseEntry
		var at int64
		err := row.Scan(append([]any{&e.Seq, &e.Op, &at}, r.dest()...)...)
		lease := r.lease(key)
		e.Owner, e.Epoch, e.TTL, e.End, e.Floor = lease.Owner, lease.Epoch, lease.TTL, lease.End, lease.Floor
		e.Lineage = lease.Lineage
		e.At = time.UnixMilli(at).UTC()
		return e, err
	})
}

// Leases implements stores.LeaseLister. A limit below 1, or an after that is not
// text, is CodeInvalidArgument.
func (s *Store) Leases(ctx context.Context, after string, limit int) ([]messages.Lease, error) {
	return s.list(ctx, s.dialect.Leases, after, limit)
}

// Forgotten implements stores.LeaseLister, with the errors of Leases.
func (s *Store) Forgotten(ctx context.Context, after string, limit int) ([]messages.Lease, error) {
	return s.list(ctx, s.dialect.Forgotten, after, limit)
}

func (s *Store) list(ctx context.Context, statement, after string, limit int) ([]messages.Lease, error) {
	if limit < 1 {
		return nil, &messages.Error{Code: messages.CodeInvalidArgument, Message: fmt.Sprintf("limit %d is below 1", limit)}
	}
	if !utf8.ValidString(after) || strings.ContainsRune(after, 0) {
		return nil, &messages.Error{Code: messages.CodeInvalidArgument, Message: "the key to begin after is not text"}
	}
	return query(ctx, s, statement, []any{after, int64(limit)}, func(row scanner) (messages.Lease, error) {
		var r record
		var text string
		if err := row.Scan(append([]any{&text}, r.dest()...)...); err != nil {
			return messages.Lease{}, err
		}
		key, err := messages.ParseKey(text)
		if err != nil {
			return messages.Lease{}, &messages.Error{Code: messages.CodeCorrupt, Object: "leases", Message: "a record has a malformed key", Err: err}
		}
		return r.lease(key), nil
	})
}

// Deployment implements stores.DeploymentKeeper.
func (s *Store) Deployment(ctx context.Context) (string, error) {
	return s.deployment(ctx, s.dialect.Deployment)
}

// SetDeployment implements stores.DeploymentKeeper.
func (s *Store) SetDeployment(ctx context.Context, identity string) (string, error) {
	if err := stores.ValidateDeployment(identity); err != nil {
		return "", err
	}
	return s.deployment(ctx, s.dialect.SetDeployment, identity)
}

func (s *Store) deployment(ctx context.Context, statement string, args ...any) (string, error) {
	answers, err := query(ctx, s, statement, args, func(row scanner) (identity string, err error) {
		err = row.Scan(&identity)
		return identity, err
	})
	if err == nil && len(answers) != 1 {
		err = &messages.Error{Code: messages.CodeUnavailable, Message: fmt.Sprintf("the lease store answered %d times", len(answers))}
	}
	if err != nil {
		return "", err
	}
	return answers[0], nil
}

// storedEpoch is an epoch as a column holds it. No record has one that does not fit, and none has -1.
func storedEpoch(epoch uint64) int64 {
	if epoch > math.MaxInt64 {
		return -1
	}
	return int64(epoch)
}
