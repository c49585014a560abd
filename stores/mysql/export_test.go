package mysql

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// Objects is the description that Open compares a schema with.
func Objects() string { return objects }

// Describe is the description of the schema of a database as it is, sorted.
func Describe(ctx context.Context, db *sql.DB) (string, error) {
	lines, err := describe(ctx, db)
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n", err
}

// Make makes the schema, and checks nothing.
func Make(ctx context.Context, dsn string) error {
	driver, err := mysql.ParseDSN(dsn)
	if err != nil {
		return err
	}
	cfg, _, err := Config{DSN: dsn}.complete()
	if err != nil {
		return err
	}
	return migrate(ctx, driver, cfg)
}
