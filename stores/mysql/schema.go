package mysql

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/internal/sqllease"
)

// schemaVersion is the version of schema.sql.
const schemaVersion = 1

// schemaSQL can also be run by the client mariadb: its first line is the client's.
//
//go:embed schema.sql
var schemaSQL string

// objects is what store_objects answers on a schema that schema.sql has made.
//
//go:embed objects.txt
var objects string

// migrationMode is the sql_mode under which triggers and procedures are made, and which they keep.
const migrationMode = "'STRICT_TRANS_TABLES,STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'"

// prepare creates the schema, or checks that it is that of this program.
func prepare(ctx context.Context, db *sql.DB, driver *mysql.Config, cfg Config) error {
	if cfg.Migrate {
		if err := db.PingContext(ctx); err != nil { // with the settings as nodes will have them
			return err
		}
		if err := migrate(ctx, driver, cfg); err != nil {
			return err
		}
	}
	return verify(ctx, db, "database "+driver.DBName)
}

func migrate(ctx context.Context, driver *mysql.Config, cfg Config) error {
	driver = driver.Clone()
	if driver.Params == nil {
		driver.Params = map[string]string{}
	}
	driver.Params["sql_mode"] = migrationMode
	connector, err := cfg.connector(driver)
	if err != nil {
		return err
	}
	db := sqllease.OpenDB(connector, 1)
	defer db.Close() // which also ends the lock
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	// Of several nodes that start at once, one creates it, and the others find it.
	var locked sql.NullInt64
	if err := conn.QueryRowContext(ctx, `SELECT GET_LOCK(CONCAT('leasehold.', DATABASE()), 60)`).Scan(&locked); err != nil {
		return err
	}
	if locked.Int64 != 1 {
		return &messages.Error{Code: messages.CodeUnavailable, Message: "another migration is not finished"}
	}
	complete, err := isComplete(ctx, conn)
	if err != nil {
		return err
	}
	keep := max(cfg.KeepRenewals, 0)
	if complete {
		if cfg.KeepRenewals == 0 {
			return nil
		}
		_, err := conn.ExecContext(ctx, `UPDATE store SET keep_renewals = ? WHERE keep_renewals <> ?`, keep, keep)
		return err
	}
	if cfg.KeepRenewals == 0 {
		keep = sqllease.DefaultKeepRenewals
	}
	for _, statement := range statements() {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	_, err = conn.ExecContext(ctx, `INSERT INTO store VALUES (1, ?, ?, '')`, schemaVersion, keep)
	return err
}

// statements are those of schema.sql.
func statements() []string {
	_, text, _ := strings.Cut(schemaSQL, "DELIMITER ;;\n")
	var all []string
	for statement := range strings.SplitSeq(text, ";;\n") {
		if statement = strings.TrimSpace(statement); statement != "" {
			all = append(all, statement)
		}
	}
	return all
}

// isComplete reports whether the schema is there. One whose making was cut short is not, and is made
// anew; but one that has records has been complete, and has lost the row of its store.
func isComplete(ctx context.Context, conn *sql.Conn) (bool, error) {
	tables := map[string]bool{}
	rows, err := conn.QueryContext(ctx, `SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()`)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return false, err
		}
		tables[name] = true
	}
	if err := rows.Err(); err != nil {
		return false, err
	}
	var stores, leases int
	if tables["store"] {
		if err := conn.QueryRowContext(ctx, `SELECT count(*) FROM store`).Scan(&stores); err != nil {
			return false, err
		}
	}
	if tables["leases"] {
		if err := conn.QueryRowContext(ctx, `SELECT count(*) FROM (SELECT 1 FROM leases LIMIT 1) l`).Scan(&leases); err != nil {
			return false, err
		}
	}
	if stores == 0 && leases > 0 {
		return false, &messages.Error{Code: messages.CodeCorrupt, Object: "table store", Message: "the store has records, but its row is missing"}
	}
	return stores > 0, nil
}

func verify(ctx context.Context, db *sql.DB, object string) error {
	missing := &messages.Error{Code: messages.CodeNotFound, Object: object,
		Message: "there is no lease store here; its owner creates it with Migrate"}
	var version int
	err := db.QueryRowContext(ctx, `SELECT COALESCE(MAX(version), 0) FROM store`).Scan(&version)
	if fault(err).Code == messages.CodeNotFound || err == nil && version == 0 {
		missing.Err = err
		return missing
	}
	if err != nil {
		return err
	}
	if version != schemaVersion {
		return &messages.Error{Code: messages.CodeCorrupt, Object: object,
			Message: fmt.Sprintf("the lease store has version %d, this program knows version %d", version, schemaVersion)}
	}
	lines, err := describe(ctx, db)
	if fault(err).Code == messages.CodeNotFound {
		return &messages.Error{Code: messages.CodeCorrupt, Object: "routine store_objects", Message: "it is missing", Err: err}
	}
	if err != nil {
		return err
	}
	return sqllease.Differences(strings.Split(strings.TrimSpace(objects), "\n"), lines)
}

// describe lists everything in the database that keeps records safe, one line each. Triggers and
// procedures are named with a hash of their body.
func describe(ctx context.Context, db *sql.DB) ([]string, error) {
	return sqllease.Lines(db.QueryContext(ctx, `CALL store_objects()`))
}
