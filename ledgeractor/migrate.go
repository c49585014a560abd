package ledgeractor

import (
	"context"
	"crypto/sha256"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/mattn/go-sqlite3"

	"github.com/leasehold/leasehold/messages"
)

// digest recognizes a migration: SHA-256 over version, name and SQL.
func (m Migration) digest() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\x00%s\x00%s", m.Version, m.Name, m.SQL))
	return hex.EncodeToString(sum[:])
}

// compatibleSince is what is written into the ledger.
func (m Migration) compatibleSince() int {
	switch m.CompatibleSince {
	case 0:
		return m.Version
	case AnyApplication:
		return 0
	}
	return m.CompatibleSince
}

// Applied is a migration that has run on a ledger.
type Applied struct {
	Version         int
	CompatibleSince int // see Migration; 0: AnyApplication
	name, digest    string
}

// Needs returns the version of its newest migration that an application must have to open a ledger on which these have
// run; 0: none.
func Needs(applied []Applied) (needs int) {
	for _, m := range applied {
		needs = max(needs, m.CompatibleSince)
	}
	return needs
}

// Newest returns the version of the newest migration; 0: there is none.
func Newest(list []Migration) int {
	if len(list) == 0 {
		return 0
	}
	return list[len(list)-1].Version
}

// Fingerprint recognizes a list of migrations: two lists with the same one are the same, as far as can be told.
func Fingerprint(list []Migration) string {
	sum := sha256.New()
	for _, m := range list {
		_, _ = sum.Write([]byte(m.digest())) // which never fails
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// CheckApplied returns CodeIncapable unless an application with these migrations can open a ledger on which those have run: the
// shorter list must be the beginning of the other one, unchanged, and where the ledger is ahead, all that is missing in
// the list must be compatible with its newest migration.
func CheckApplied(key messages.Key, applied []Applied, list []Migration) error {
	incapable := func(version int, name, what string) *messages.Error {
		return &messages.Error{Code: messages.CodeIncapable, Key: key.String(), Message: fmt.Sprintf("migration %d (%s) %s", version, name, what)}
	}
	for i, done := range applied {
		if i >= len(list) {
			if done.CompatibleSince <= Newest(list) {
				continue
			}
			err := incapable(done.Version, done.name, "has run on this ledger, and this application is too old for it")
			err.Needs = Needs(applied)
			return err
		}
		switch m := list[i]; {
		case m.Version != done.Version:
			return incapable(done.Version, done.name, fmt.Sprintf("has run on this ledger, and the list has %d (%s) in its place: versions can only be added at the end", m.Version, m.Name))
		case m.digest() != done.digest:
			return incapable(m.Version, m.Name, "was changed after it had run on this ledger")
		}
	}
	return nil
}

// migrate runs what has not run yet and returns how many versions that were.
func (g *guard) migrate(ctx context.Context) (ran int, err error) {
	applied, err := g.applied(ctx)
	if err != nil {
		return 0, err
	}
	if err := CheckApplied(g.cfg.Key, applied, g.cfg.Migrations); err != nil {
		return 0, err
	}
	for _, m := range g.cfg.Migrations[min(len(applied), len(g.cfg.Migrations)):] {
		if err := g.apply(ctx, m); err != nil {
			return ran, err
		}
		ran++
	}
	return ran, nil
}

func (g *guard) needs(ctx context.Context) (int, error) {
	applied, err := g.applied(ctx)
	return Needs(applied), err
}

func (g *guard) applied(ctx context.Context) (list []Applied, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.own = true
	defer func() { g.own = false }()
	list, err = readApplied(ctx, g.raw)
	return list, g.failed(err)
}

func readApplied(ctx context.Context, raw *sqlite3.SQLiteConn) (list []Applied, err error) {
	err = eachRow(ctx, raw, "SELECT version, compatible_since, name, digest FROM main.leasehold_migrations ORDER BY version", nil, func(row []driver.Value) error {
		version, _ := row[0].(int64)
		since, _ := row[1].(int64)
		name, _ := row[2].(string)
		digest, _ := row[3].(string)
		list = append(list, Applied{int(version), int(since), name, digest})
		return nil
	})
	return list, err
}

// apply runs one migration in a transaction of its own.
func (g *guard) apply(ctx context.Context, m Migration) (err error) {
	if err := g.beginBatch(); err != nil {
		return err
	}
	if err := g.run(ctx, m); err != nil {
		_ = g.rollbackBatch() // err says why
		return err
	}
	if err := g.commitBatch(); err != nil {
		_ = g.rollbackBatch() // err says why
		return g.failedMigration(m, err)
	}
	return nil
}

// run runs one migration in the open transaction.
func (g *guard) run(ctx context.Context, m Migration) error {
	run := m.Apply
	if run == nil {
		run = func(ctx context.Context, tx *Tx) error {
			_, err := tx.ExecContext(ctx, m.SQL)
			return err
		}
	}
	_, err := g.runCode(ctx, false, func(tx *Tx) error { return run(tx.Context(), tx) })
	if err == nil {
		err = g.record(ctx, m)
	}
	if err == nil {
		err = g.checkImage()
	}
	return g.failedMigration(m, err)
}

func (g *guard) failedMigration(m Migration, err error) error {
	if err == nil {
		return nil
	}
	failed := *messages.AsError(err)
	failed.Key, failed.Message = g.fail.key, fmt.Sprintf("migration %d (%s) failed: %s", m.Version, m.Name, failed.Message)
	return &failed
}

// Rehearse runs the migrations that a ledger lacks, all in one transaction, and rolls them back: an application finds out that they fail
// before anything of the open is published. Where cfg.Path does not exist they run on an empty ledger, which is removed again.
// No process may have the ledger open. The error is the one that opening it would have, except that what only a commit
// refuses (a deferred constraint) is not seen.
func Rehearse(ctx context.Context, cfg Config) (err error) {
	if err := cfg.Validate(); err != nil {
		return err
	}
	cfg = cfg.withDefaults()
	if !exists(cfg.Path) {
		defer func() { err = errors.Join(err, removeDatabase(cfg.Path)) }()
	}
	g, _, err := openSchema(ctx, cfg, nil)
	if err == nil {
		err = g.fail.typed(g.rehearse(ctx))
		err = errors.Join(err, g.close())
	}
	if err != nil {
		logFailedOpen(cfg, err)
	}
	return err
}

func (g *guard) rehearse(ctx context.Context) error {
	applied, err := g.applied(ctx)
	if err != nil {
		return err
	}
	if err := g.beginBatch(); err != nil {
		return err
	}
	for _, m := range g.cfg.Migrations[min(len(applied), len(g.cfg.Migrations)):] {
		if err = g.run(ctx, m); err != nil {
			break
		}
	}
	if undo := g.rollbackBatch(); err == nil {
		err = undo
	}
	return err
}

// removeDatabase deletes a database file with what SQLite keeps beside it.
func removeDatabase(path string) (err error) {
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		if rm := os.Remove(path + suffix); rm != nil && !errors.Is(rm, fs.ErrNotExist) {
			err = errors.Join(err, rm)
		}
	}
	return err
}

func (g *guard) record(ctx context.Context, m Migration) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lost != nil {
		return g.rolledBack()
	}
	g.own = true
	defer func() { g.own = false }()
	_, err := g.raw.ExecContext(ctx, "INSERT INTO main.leasehold_migrations (version, name, digest, compatible_since, applied_at) VALUES (?, ?, ?, ?, ?)",
		named([]driver.Value{int64(m.Version), m.Name, m.digest(), int64(m.compatibleSince()), g.cfg.Now().UTC().Format(messages.TimeLayout)}))
	return g.failed(err)
}
