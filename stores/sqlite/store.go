package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

// Read implements stores.LeaseStore.
func (s *Store) Read(ctx context.Context, key messages.Key) (messages.Lease, bool, error) {
	if err := key.Validate(); err != nil {
		return messages.Lease{}, false, err
	}
	type record struct {
		lease messages.Lease
		ok    bool
	}
	r, err := read(ctx, s, func(conn *sql.Conn) (record, error) {
		lease, ok, err := (&tx{conn: conn}).load(ctx, key)
		return record{lease, ok}, err
	})
	return r.lease, r.ok, err
}

// Acquire implements stores.LeaseStore.
func (s *Store) Acquire(ctx context.Context, key messages.Key, owner string, ttl time.Duration) (messages.Lease, error) {
	if err := (stores.Renewal{Key: key, Owner: owner, TTL: ttl}).Validate(); err != nil {
		return messages.Lease{}, err
	}
	return write(ctx, s, func(ctx context.Context, t *tx) (messages.Lease, error) {
		return t.acquire(ctx, key, owner, ttl)
	})
}

// Renew implements stores.LeaseStore. A renewal with a shorter ttl does not move the end back.
func (s *Store) Renew(ctx context.Context, key messages.Key, owner string, epoch uint64, ttl time.Duration) (messages.Lease, error) {
	r := stores.Renewal{Key: key, Owner: owner, Epoch: epoch, TTL: ttl}
	if err := r.Validate(); err != nil {
		return messages.Lease{}, err
	}
	return write(ctx, s, func(ctx context.Context, t *tx) (messages.Lease, error) {
		return t.renew(ctx, r)
	})
}

// RenewMany implements stores.BatchRenewer: one transaction, and one fsync, for all.
func (s *Store) RenewMany(ctx context.Context, renewals []stores.Renewal) ([]stores.RenewalResult, error) {
	if len(renewals) == 0 {
		return nil, nil
	}
	return write(ctx, s, func(ctx context.Context, t *tx) ([]stores.RenewalResult, error) {
		results := make([]stores.RenewalResult, len(renewals))
		for i, r := range renewals {
			if results[i].Err = r.Validate(); results[i].Err != nil {
				continue
			}
			lease, err := t.renew(ctx, r)
			// A refusal is one renewal's own; a database that fails has failed for all.
			if err != nil && !errors.Is(err, messages.ErrLost) {
				return nil, err
			}
			results[i] = stores.RenewalResult{Lease: lease, Err: err}
		}
		return results, nil
	})
}

// Release implements stores.LeaseStore.
func (s *Store) Release(ctx context.Context, key messages.Key, owner string, epoch uint64) error {
	if err := stores.ValidateHolder(key, owner); err != nil {
		return err
	}
	_, err := write(ctx, s, func(ctx context.Context, t *tx) (struct{}, error) {
		lease, err := t.holder(ctx, key, owner, epoch)
		if err == nil {
			lease.End = t.at(0)
			err = t.store(ctx, messages.OpRelease, lease)
		}
		return struct{}{}, err
	})
	return err
}

// MarkForgotten implements stores.LeaseStore.
func (s *Store) MarkForgotten(ctx context.Context, key messages.Key, owner string, epoch uint64) error {
	if err := stores.ValidateHolder(key, owner); err != nil {
		return err
	}
	_, err := write(ctx, s, func(ctx context.Context, t *tx) (struct{}, error) {
		lease, err := t.holder(ctx, key, owner, epoch)
		if err == nil {
			lease.Floor = lease.Epoch
			err = t.store(ctx, messages.OpForget, lease)
		}
		return struct{}{}, err
	})
	return err
}

// MarkLineage implements stores.LeaseStore.
func (s *Store) MarkLineage(ctx context.Context, key messages.Key, owner string, epoch uint64) error {
	if err := stores.ValidateHolder(key, owner); err != nil {
		return err
	}
	_, err := write(ctx, s, func(ctx context.Context, t *tx) (struct{}, error) {
		lease, err := t.holder(ctx, key, owner, epoch)
		if err == nil {
			if !lease.HasLineage() {
				lease.Lineage = lease.Epoch
			}
			err = t.store(ctx, messages.OpLineage, lease)
		}
		return struct{}{}, err
	})
	return err
}

// Reseed implements stores.Reseeder.
func (s *Store) Reseed(ctx context.Context, seed stores.Seed, live bool) (messages.Lease, error) {
	if err := seed.Validate(); err != nil {
		return messages.Lease{}, err
	}
	return write(ctx, s, func(ctx context.Context, t *tx) (messages.Lease, error) {
		old, ok, err := t.load(ctx, seed.Key)
		if err != nil {
			return old, err
		}
		if left := old.End.UnixMilli() - t.now; ok && left > 0 && !live {
			return messages.Lease{}, stores.Held(old, time.Duration(left)*time.Millisecond)
		}
		lease, raised := seed.Raise(old, t.at(0))
		switch {
		case !raised:
			return old, nil
		case !ok:
			return lease, t.begin(ctx, messages.OpReseed, lease)
		}
		return lease, t.store(ctx, messages.OpReseed, lease)
	})
}

// History implements stores.LeaseStore.
func (s *Store) History(ctx context.Context, key messages.Key) ([]messages.LeaseEntry, error) {
	if err := key.Validate(); err != nil {
		return nil, err
	}
	return read(ctx, s, func(conn *sql.Conn) ([]messages.LeaseEntry, error) {
		rows, err := conn.QueryContext(ctx, `SELECT seq, op, at_ms, `+columns+` FROM trail WHERE key = ? ORDER BY seq`, key.String())
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		var entries []messages.LeaseEntry
		for rows.Next() {
			var e messages.LeaseEntry
			var at int64
			lease, err := scanLease(rows, key, &e.Seq, &e.Op, &at)
			if err != nil {
				return nil, err
			}
			e.Owner, e.Epoch, e.TTL, e.End, e.Floor = lease.Owner, lease.Epoch, lease.TTL, lease.End, lease.Floor
			e.Lineage = lease.Lineage
			e.At = time.UnixMilli(at).UTC()
			entries = append(entries, e)
		}
		return entries, rows.Err()
	})
}

// Leases implements stores.LeaseLister. A limit below 1 is CodeInvalidArgument.
func (s *Store) Leases(ctx context.Context, after string, limit int) ([]messages.Lease, error) {
	return s.list(ctx, `SELECT key, `+columns+` FROM leases WHERE key > ? ORDER BY key LIMIT ?`, after, limit)
}

// Forgotten implements stores.LeaseLister. A limit below 1 is CodeInvalidArgument.
func (s *Store) Forgotten(ctx context.Context, after string, limit int) ([]messages.Lease, error) {
	return s.list(ctx, `SELECT key, `+columns+` FROM leases WHERE floor > 0 AND key > ? ORDER BY key LIMIT ?`, after, limit)
}

func (s *Store) list(ctx context.Context, query, after string, limit int) ([]messages.Lease, error) {
	if limit < 1 {
		return nil, &messages.Error{Code: messages.CodeInvalidArgument, Message: fmt.Sprintf("limit %d is below 1", limit)}
	}
	return read(ctx, s, func(conn *sql.Conn) ([]messages.Lease, error) {
		rows, err := conn.QueryContext(ctx, query, after, limit)
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		var leases []messages.Lease
		for rows.Next() {
			var text string
			lease, err := scanLease(rows, messages.Key{}, &text)
			if err != nil {
				return nil, err
			}
			if lease.Key, err = messages.ParseKey(text); err != nil {
				return nil, &messages.Error{Code: messages.CodeCorrupt, Object: "leases", Message: "a record has a malformed key", Err: err}
			}
			leases = append(leases, lease)
		}
		return leases, rows.Err()
	})
}

// Deployment implements stores.DeploymentKeeper.
func (s *Store) Deployment(ctx context.Context) (string, error) {
	return read(ctx, s, func(conn *sql.Conn) (string, error) { return loadDeployment(ctx, conn) })
}

// SetDeployment implements stores.DeploymentKeeper.
func (s *Store) SetDeployment(ctx context.Context, identity string) (string, error) {
	if err := stores.ValidateDeployment(identity); err != nil {
		return "", err
	}
	return write(ctx, s, func(ctx context.Context, t *tx) (string, error) {
		if _, err := t.conn.ExecContext(ctx, `UPDATE store SET deployment = ? WHERE deployment = ''`, identity); err != nil {
			return "", err
		}
		return loadDeployment(ctx, t.conn)
	})
}

func loadDeployment(ctx context.Context, conn *sql.Conn) (identity string, err error) {
	err = conn.QueryRowContext(ctx, `SELECT deployment FROM store`).Scan(&identity)
	return identity, err
}
