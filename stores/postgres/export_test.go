package postgres

import (
	"context"
	"database/sql"
	"strings"
)

// Objects is the description that Open compares a schema with.
func Objects() string { return objects }

// Describe is the description of a schema as it is.
func Describe(ctx context.Context, db *sql.DB, schema string) (string, error) {
	lines, err := describe(ctx, db, schema)
	return strings.Join(lines, "\n") + "\n", err
}

// MadeBy is the description of the schema that schema.sql makes now.
func MadeBy(ctx context.Context, db *sql.DB) (string, error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return "", err
	}
	defer tx.Rollback()
	if err := migrate(ctx, tx, Config{Schema: "made"}); err != nil {
		return "", err
	}
	lines, err := describe(ctx, tx, "made")
	return strings.Join(lines, "\n") + "\n", err
}
