package sqllease

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

// Reseed implements stores.Reseeder. It writes the tables themselves, so it needs the rights of their owner, as Migrate does.
func (s *Store) Reseed(ctx context.Context, seed stores.Seed, live bool) (messages.Lease, error) {
	if err := seed.Validate(); err != nil {
		return messages.Lease{}, err
	}
	limited, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	lease, err := s.reseed(limited, seed, live)
	if ctx.Err() != nil {
		return messages.Lease{}, contextError(ctx)
	}
	if err != nil && !errors.Is(err, messages.ErrHeld) {
		return messages.Lease{}, s.dialect.operationError(err)
	}
	return lease, err
}

func (s *Store) reseed(ctx context.Context, seed stores.Seed, live bool) (messages.Lease, error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return messages.Lease{}, err
	}
	defer tx.Rollback()
	var now int64
	var r record
	statement := s.dialect.Update
	err = tx.QueryRowContext(ctx, s.dialect.Lock, seed.Key.String()).Scan(append([]any{&now}, r.dest()...)...)
	if errors.Is(err, sql.ErrNoRows) {
		statement = s.dialect.Insert
		err = tx.QueryRowContext(ctx, s.dialect.Clock).Scan(&now)
	}
	if err != nil {
		return messages.Lease{}, err
	}
	old := r.lease(seed.Key)
	if left := r.EndMS - now; left > 0 && !live {
		return messages.Lease{}, stores.Held(old, time.Duration(left)*time.Millisecond)
	}
	lease, raised := seed.Raise(old, time.UnixMilli(now).UTC())
	if !raised {
		return old, nil
	}
	if _, err := tx.ExecContext(ctx, statement, lease.Owner, int64(lease.Epoch), lease.TTL.Milliseconds(), now, int64(lease.Floor), now,
		int64(lease.Lineage), seed.Key.String()); err != nil {
		return messages.Lease{}, err
	}
	return lease, tx.Commit()
}
