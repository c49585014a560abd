package ledgeractor

import (
	"context"
	"crypto/sha256"
	"database/sql/driver"
	"encoding/hex"
	"fmt"

	"github.com/leasehold/leasehold/messages"
)

// digest recognizes a migration: SHA-256 over version, name and SQL.
func (m Migration) digest() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\x00%s\x00%s", m.Version, m.Name, m.SQL))
	return hex.EncodeToString(sum[:])
}

// migrate runs what has not run yet and returns how many versions that were. What ran before must
// be the beginning of the list, unchanged; anything else is CodeInvalidArgument.
func (g *guard) migrate(ctx context.Context) (ran int, err error) {
	applied, err := g.applied(ctx)
	if err != nil {
		return 0, err
	}
	for i, done := range applied {
		if i >= len(g.cfg.Migrations) {
			return 0, g.migrationError(done.Version, "has run on this ledger, but is not in the list")
		}
		switch m := g.cfg.Migrations[i]; {
		case m.Version != done.Version:
			return 0, g.migrationError(min(m.Version, done.Version), "does not match what has run on this ledger: versions can only be added at the end")
		case m.digest() != done.digest:
			return 0, g.migrationError(m.Version, "was changed after it had run on this ledger")
		}
	}
	for _, m := range g.cfg.Migrations[len(applied):] {
		if err := g.apply(ctx, m); err != nil {
			return ran, err
		}
		ran++
	}
	return ran, nil
}

type appliedMigration struct {
	Version int
	digest  string
}

func (g *guard) applied(ctx context.Context) (list []appliedMigration, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.own = true
	defer func() { g.own = false }()
	err = eachRow(ctx, g.raw, "SELECT version, digest FROM main.leasehold_migrations ORDER BY version", nil, func(row []driver.Value) error {
		version, _ := row[0].(int64)
		digest, _ := row[1].(string)
		list = append(list, appliedMigration{int(version), digest})
		return nil
	})
	return list, g.failed(err)
}

// apply runs one migration in a transaction of its own.
func (g *guard) apply(ctx context.Context, m Migration) (err error) {
	if err := g.beginBatch(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = g.rollbackBatch() // err says why
			err = &messages.Error{Code: messages.CodeOf(err), Key: g.fail.key, Message: fmt.Sprintf("migration %d failed", m.Version), Err: err}
		}
	}()
	run := m.Apply
	if run == nil {
		run = func(ctx context.Context, tx *Tx) error {
			_, err := tx.ExecContext(ctx, m.SQL)
			return err
		}
	}
	if _, err := g.runCode(ctx, false, func(tx *Tx) error { return run(tx.Context(), tx) }); err != nil {
		return err
	}
	if err := g.record(ctx, m); err != nil {
		return err
	}
	return g.commitBatch()
}

func (g *guard) record(ctx context.Context, m Migration) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lost {
		return &messages.Error{Code: messages.CodeStorage, Key: g.fail.key, Message: "the database has rolled the transaction back"}
	}
	g.own = true
	defer func() { g.own = false }()
	_, err := g.raw.ExecContext(ctx, "INSERT INTO main.leasehold_migrations (version, name, digest, applied_at) VALUES (?, ?, ?, ?)",
		named([]driver.Value{int64(m.Version), m.Name, m.digest(), g.cfg.Now().UTC().Format(timeLayout)}))
	return g.failed(err)
}

func (g *guard) migrationError(version int, what string) error {
	return &messages.Error{Code: messages.CodeInvalidArgument, Key: g.fail.key, Message: fmt.Sprintf("migration %d %s", version, what)}
}
