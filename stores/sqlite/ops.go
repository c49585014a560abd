package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

const columns = `owner, epoch, ttl_ms, end_ms, floor, lineage`

// tx is one write transaction at one instant of the store's clock.
type tx struct {
	conn *sql.Conn
	now  int64 // ms since 1970
}

type scanner interface{ Scan(dest ...any) error }

func scanLease(row scanner, key messages.Key, dest ...any) (messages.Lease, error) {
	lease := messages.Lease{Key: key}
	var ttl, end int64
	err := row.Scan(append(dest, &lease.Owner, &lease.Epoch, &ttl, &end, &lease.Floor, &lease.Lineage)...)
	lease.TTL, lease.End = time.Duration(ttl)*time.Millisecond, time.UnixMilli(end).UTC()
	return lease, err
}

func (t *tx) load(ctx context.Context, key messages.Key) (messages.Lease, bool, error) {
	lease, err := scanLease(t.conn.QueryRowContext(ctx, `SELECT `+columns+` FROM leases WHERE key = ?`, key.String()), key)
	if errors.Is(err, sql.ErrNoRows) {
		return messages.Lease{}, false, nil
	}
	return lease, err == nil, err
}

func (t *tx) store(ctx context.Context, op string, lease messages.Lease) error {
	_, err := t.conn.ExecContext(ctx, `UPDATE leases SET owner = ?, epoch = ?, ttl_ms = ?, end_ms = ?, floor = ?, lineage = ?,
		seq = seq + 1, op = ?, at_ms = ? WHERE key = ?`,
		lease.Owner, int64(lease.Epoch), lease.TTL.Milliseconds(), lease.End.UnixMilli(), int64(lease.Floor), int64(lease.Lineage), op, t.now, lease.Key.String())
	return err
}

// holder returns the record of a lease that is unexpired and belongs to owner at epoch; else CodeLost.
func (t *tx) holder(ctx context.Context, key messages.Key, owner string, epoch uint64) (messages.Lease, error) {
	lease, _, err := t.load(ctx, key)
	if err != nil {
		return lease, err
	}
	return lease, stores.Holder(key, lease, lease.End.UnixMilli() <= t.now, owner, epoch)
}

func (t *tx) at(ttl time.Duration) time.Time {
	return time.UnixMilli(t.now + ttl.Milliseconds()).UTC()
}

func (t *tx) acquire(ctx context.Context, key messages.Key, owner string, ttl time.Duration) (messages.Lease, error) {
	lease, ok, err := t.load(ctx, key)
	if err != nil {
		return messages.Lease{}, err
	}
	if left := lease.End.UnixMilli() - t.now; ok && left > 0 {
		return messages.Lease{}, stores.Held(lease, time.Duration(left)*time.Millisecond)
	}
	lease = messages.Lease{Key: key, Owner: owner, Epoch: lease.Epoch + 1, TTL: ttl, End: t.at(ttl), Floor: lease.Floor, Lineage: lease.Lineage}
	if ok {
		return lease, t.store(ctx, messages.OpAcquire, lease)
	}
	return lease, t.begin(ctx, messages.OpAcquire, lease)
}

// begin makes the record of a key that has none.
func (t *tx) begin(ctx context.Context, op string, lease messages.Lease) error {
	_, err := t.conn.ExecContext(ctx, `INSERT INTO leases VALUES (?, ?, ?, ?, ?, ?, 1, ?, ?, ?)`,
		lease.Key.String(), lease.Owner, int64(lease.Epoch), lease.TTL.Milliseconds(), lease.End.UnixMilli(), int64(lease.Floor), op, t.now, int64(lease.Lineage))
	return err
}

func (t *tx) renew(ctx context.Context, r stores.Renewal) (messages.Lease, error) {
	lease, err := t.holder(ctx, r.Key, r.Owner, r.Epoch)
	if err != nil {
		return messages.Lease{}, err
	}
	lease.TTL = r.TTL
	// A renewal never takes back time that was promised before.
	if end := t.at(r.TTL); end.After(lease.End) {
		lease.End = end
	}
	if err := t.store(ctx, messages.OpRenew, lease); err != nil {
		return messages.Lease{}, err
	}
	return lease, t.trim(ctx, r.Key)
}

// trim drops old renewals of a key if the file says so. The rows that a trigger protects are left out.
func (t *tx) trim(ctx context.Context, key messages.Key) error {
	_, err := t.conn.ExecContext(ctx, `DELETE FROM trail WHERE key = ?1 AND op = 'renew' AND (SELECT keep_renewals FROM store) > 0
		AND seq <= (SELECT seq FROM leases WHERE key = ?1) - (SELECT keep_renewals FROM store)`, key.String())
	return err
}
