package postgres

import (
	"context"
	"database/sql"
	"errors"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
	"github.com/leasehold/leasehold/stores/internal/sqllease"
)

// DefaultSchema is the schema of the lease store unless Config says otherwise.
const DefaultSchema = "leasehold"

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// KeepAllRenewals is a Config.KeepRenewals that drops nothing.
const KeepAllRenewals = sqllease.KeepAllRenewals

// Config says where a lease store is and how it behaves. Only DSN is needed.
type Config struct {
	// DSN names the server, the database and the role: a postgres:// address, or key=value pairs, as
	// libpq has them; what it leaves out is taken from the PG… variables of the environment. Several
	// hosts are fine, with target_session_attrs=read-write.
	DSN string
	// Schema holds the tables and functions, and nothing else; "": DefaultSchema. It is a plain name:
	// a-z, 0-9 and _.
	Schema string
	// Migrate creates the schema if there is none, as the role of the DSN, which then owns it. Without
	// it a missing schema is an error, and the role needs no more than Grants.
	Migrate bool
	// KeepRenewals, with Migrate only, is written into the store: of each key's audit trail, renewals
	// older than its newest KeepRenewals entries are dropped; KeepAllRenewals drops none. 0 leaves the
	// store as it is; a new store keeps 100. Entries other than renewals are never dropped.
	KeepRenewals int
	// MaxConns is how many connections are open at most; 0: 8.
	MaxConns int
	// Timeout is how long an operation waits for the server when its context has no earlier deadline,
	// and how long opening a connection may take; 0: 5 s. After it the operation is CodeUnavailable.
	Timeout time.Duration
	// AllowUnsafe accepts a server that can lose granted leases in a crash or a power cut, which the
	// protocol does not survive: it is for tests.
	AllowUnsafe bool
}

// Store is a lease store on a PostgreSQL server. It is safe for concurrent use, and for use together with
// other Stores on the same schema, in any number of processes.
type Store struct{ *sqllease.Store }

var (
	_ stores.LeaseStore   = (*Store)(nil)
	_ stores.BatchRenewer = (*Store)(nil)
	_ stores.LeaseLister  = (*Store)(nil)
)

// Open connects to the server, checks its settings and the schema, and creates the schema if Config says
// so. The errors are CodeInvalidArgument for a Config that can never work, and for a server or a session with
// a setting that puts granted leases at risk (Object names it); CodeNotFound for a schema that is not there;
// CodeCorrupt for one that is not that of this program (Object names the difference); CodeUnauthorized if the
// server refuses the role, or the role lacks a right; CodeUnavailable if there is no answer.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	cfg, conn, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	db := sqllease.OpenDB(&sqllease.Connector{
		Connector:   stdlib.GetConnector(*conn, stdlib.OptionShouldPing(lookedDead)),
		Settings:    settings(cfg.Timeout),
		Judge:       judge,
		AllowUnsafe: cfg.AllowUnsafe,
		Timeout:     cfg.Timeout,
	}, cfg.MaxConns)
	d := dialect(cfg.Schema)
	d.Name = "postgres://" + conn.Host + "/" + conn.Database + "?schema=" + cfg.Schema
	if err := prepare(ctx, db, cfg); err != nil {
		return nil, errors.Join(d.OpenError(ctx, err), db.Close())
	}
	return &Store{sqllease.New(db, d, cfg.Timeout)}, nil
}

// complete checks the Config and fills in its defaults.
func (c Config) complete() (Config, *pgx.ConnConfig, error) {
	invalid := func(why string) error { return &messages.Error{Code: messages.CodeInvalidArgument, Message: why} }
	if c.DSN == "" {
		return c, nil, invalid("a lease store needs a DSN")
	}
	limits, err := sqllease.Limits{Migrate: c.Migrate, KeepRenewals: c.KeepRenewals, MaxConns: c.MaxConns, Timeout: c.Timeout}.Complete()
	if err != nil {
		return c, nil, err
	}
	c.MaxConns, c.Timeout = limits.MaxConns, limits.Timeout
	if c.Schema == "" {
		c.Schema = DefaultSchema
	}
	if !schemaName.MatchString(c.Schema) || strings.HasPrefix(c.Schema, "pg_") || c.Schema == "public" {
		return c, nil, invalid("the schema of a lease store is its own, with a name such as " + DefaultSchema)
	}
	conn, err := pgx.ParseConfig(c.DSN) // its errors do not hold the password
	if err != nil {
		return c, nil, &messages.Error{Code: messages.CodeInvalidArgument, Message: "the DSN cannot be read", Err: err}
	}
	if conn.RuntimeParams["application_name"] == "" {
		conn.RuntimeParams["application_name"] = "leasehold"
	}
	return c, conn, nil
}

func dialect(schema string) sqllease.Dialect {
	s := pgx.Identifier{schema}.Sanitize()
	const columns = `owner, epoch, ttl_ms, end_ms, floor, lineage`
	return sqllease.Dialect{
		Acquire:   `SELECT * FROM ` + s + `.lease_acquire($1, $2, $3)`,
		Change:    `SELECT * FROM ` + s + `.lease_change($1, $2, $3, $4, $5)`,
		RenewMany: `SELECT ` + s + `.lease_renew_many($1)`,
		Read:      `SELECT ` + columns + ` FROM ` + s + `.leases WHERE key = $1`,
		History:   `SELECT seq, op, at_ms, ` + columns + ` FROM ` + s + `.trail WHERE key = $1 ORDER BY seq`,
		Leases:    `SELECT key, ` + columns + ` FROM ` + s + `.leases WHERE key > $1 ORDER BY key LIMIT $2`,
		Forgotten: `SELECT key, ` + columns + ` FROM ` + s + `.leases WHERE floor > 0 AND key > $1 ORDER BY key LIMIT $2`,
		Lock:      `SELECT greatest(` + s + `.clock_ms(), at_ms), ` + columns + ` FROM ` + s + `.leases WHERE key = $1 FOR UPDATE`,
		Clock:     `SELECT ` + s + `.clock_ms()`,
		Insert: `INSERT INTO ` + s + `.leases (owner, epoch, ttl_ms, end_ms, floor, at_ms, lineage, key, seq, op)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 1, 'reseed')`,
		Update: `UPDATE ` + s + `.leases SET owner = $1, epoch = $2, ttl_ms = $3, end_ms = $4, floor = $5, at_ms = $6, lineage = $7,
			seq = seq + 1, op = 'reseed' WHERE key = $8`,

		Deployment:    `SELECT deployment FROM ` + s + `.store`,
		SetDeployment: `SELECT ` + s + `.deployment_set($1)`,

		Fault: fault,
	}
}

// Grants returns the statements that give a role what a node needs, and nothing else: it can call the
// functions of the protocol, and look. It cannot write, delete or truncate a table. They are run by the
// schema's owner, once for each role. The schema "" is DefaultSchema.
func Grants(schema, role string) []string {
	if schema == "" {
		schema = DefaultSchema
	}
	s, r := pgx.Identifier{schema}.Sanitize(), pgx.Identifier{role}.Sanitize()
	return []string{
		`GRANT USAGE ON SCHEMA ` + s + ` TO ` + r,
		`GRANT SELECT ON ` + s + `.store, ` + s + `.leases, ` + s + `.trail TO ` + r,
		`GRANT EXECUTE ON FUNCTION ` + s + `.lease_acquire(text, text, bigint), ` +
			s + `.lease_change(text, text, bigint, text, bigint), ` + s + `.lease_renew_many(jsonb), ` + s + `.deployment_set(text) TO ` + r,
	}
}

// execer is a pool or a transaction.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}
