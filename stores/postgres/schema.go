package postgres

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/internal/sqllease"
)

// schemaVersion is the version of schema.sql.
const schemaVersion = 1

// idlePing is after how long an idle connection that cannot be looked at is asked before it is used.
const idlePing = time.Second

//go:embed schema.sql
var schemaSQL string

// objects is what describe answers on a schema that schema.sql has made.
//
//go:embed objects.txt
var objects string

// describe lists everything in a schema that keeps records safe, one line each, in words that do not
// depend on the schema's name. Functions are named with a hash of their body.
//
//go:embed describe.sql
var describeSQL string

// prepare creates the schema, or checks that it is that of this program.
func prepare(ctx context.Context, db *sql.DB, cfg Config) error {
	if !cfg.Migrate {
		return verify(ctx, db, cfg)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := migrate(ctx, tx, cfg); err != nil {
		return err
	}
	if err := verify(ctx, tx, cfg); err != nil {
		return err
	}
	return tx.Commit()
}

func migrate(ctx context.Context, tx *sql.Tx, cfg Config) error {
	// Of several nodes that start at once, one creates it, and the others find it.
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('leasehold.' || $1, 0))`, cfg.Schema); err != nil {
		return err
	}
	var exists bool
	if err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)`, cfg.Schema).Scan(&exists); err != nil {
		return err
	}
	schema := pgx.Identifier{cfg.Schema}.Sanitize()
	if !exists { // IF NOT EXISTS would ask for the right to create one all the same
		if _, err := tx.ExecContext(ctx, `CREATE SCHEMA `+schema); err != nil {
			return err
		}
	}
	lines, err := describe(ctx, tx, cfg.Schema)
	if err != nil {
		return err
	}
	keep := max(cfg.KeepRenewals, 0)
	if len(lines) == 0 {
		if cfg.KeepRenewals == 0 {
			keep = sqllease.DefaultKeepRenewals
		}
		create := `SET LOCAL search_path = ` + schema + `, pg_temp; ` + schemaSQL +
			fmt.Sprintf(`INSERT INTO store VALUES (1, %d, %d, '');`, schemaVersion, keep)
		_, err := tx.ExecContext(ctx, create, pgx.QueryExecModeSimpleProtocol)
		return err
	}
	if cfg.KeepRenewals == 0 {
		return nil
	}
	_, err = tx.ExecContext(ctx, `UPDATE `+schema+`.store SET keep_renewals = $1 WHERE keep_renewals <> $1`, keep)
	return err
}

func describe(ctx context.Context, db execer, schema string) ([]string, error) {
	return sqllease.Lines(db.QueryContext(ctx, describeSQL, schema))
}

func verify(ctx context.Context, db execer, cfg Config) error {
	lines, err := describe(ctx, db, cfg.Schema)
	if err != nil {
		return err
	}
	if cfg.AllowUnsafe {
		for i := range lines {
			lines[i] = strings.Replace(lines[i], " unlogged", " logged", 1)
		}
	}
	object := "schema " + cfg.Schema
	if len(lines) == 0 {
		return &messages.Error{Code: messages.CodeNotFound, Object: object,
			Message: "there is no lease store here; its owner creates it with Migrate"}
	}
	if version, err := storedVersion(ctx, db, cfg.Schema, lines); err != nil {
		return err
	} else if version != schemaVersion {
		return &messages.Error{Code: messages.CodeCorrupt, Object: object,
			Message: fmt.Sprintf("the lease store has version %d, this program knows version %d", version, schemaVersion)}
	}
	return sqllease.Differences(strings.Split(strings.TrimSpace(objects), "\n"), lines)
}

// storedVersion is 0 where the table is missing that would tell it.
func storedVersion(ctx context.Context, db execer, schema string, lines []string) (version int, err error) {
	if !strings.Contains(strings.Join(lines, "\n"), "column store.version ") {
		return 0, nil
	}
	err = db.QueryRowContext(ctx, `SELECT coalesce(max(version), 0) FROM `+pgx.Identifier{schema}.Sanitize()+`.store`).Scan(&version)
	return version, err
}
