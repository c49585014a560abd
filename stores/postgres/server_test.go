package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/stores/internal/sqllease/sqltest"
	"github.com/leasehold/leasehold/stores/postgres"
	"github.com/leasehold/leasehold/stores/storetest/servers"
)

func open(ctx context.Context, dsn string, o sqltest.Options) (sqltest.Store, error) {
	s, err := postgres.Open(ctx, postgres.Config{DSN: dsn, Migrate: o.Migrate, KeepRenewals: o.KeepRenewals, MaxConns: o.MaxConns, Timeout: o.Timeout})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func sqlstate(codes ...string) func(error) bool {
	return func(err error) bool {
		var e *pgconn.PgError
		if !errors.As(err, &e) {
			return false
		}
		for _, code := range codes {
			if e.Code == code {
				return true
			}
		}
		return false
	}
}

// node makes a role with the documented grants.
func node(t testing.TB, server *servers.Server, name string) string {
	role := "node_" + name
	statements := append([]string{fmt.Sprintf(`CREATE ROLE %s LOGIN`, role)}, postgres.Grants("", role)...)
	require.NoError(t, server.Exec(t.Context(), name, statements...))
	return role
}

var subject = sqltest.Subject{
	Open:     open,
	Database: common.Database,
	Private: func(t testing.TB) *servers.Server {
		server := servers.ForTest(t, func(ctx context.Context) (*servers.Server, error) { return servers.PostgreSQL(ctx) })
		t.Cleanup(func() { require.NoError(t, server.Stop()) })
		require.NoError(t, server.Exec(t.Context(), "", `CREATE DATABASE test`))
		return server
	},
	Node:    node,
	Driver:  "pgx",
	Prefix:  "leasehold.",
	Key:     "key",
	Refused: sqlstate("23514", "23502", "23505"),
	Denied:  sqlstate("42501"),
	Attacks: map[string]string{
		"truncated":                 `TRUNCATE @leases`,
		"truncated with others":     `TRUNCATE @leases, @trail, @store CASCADE`,
		"trail: truncated":          `TRUNCATE @trail`,
		"the store is truncated":    `TRUNCATE @store`,
		"upsert":                    `INSERT INTO @leases SELECT KEY, 'z', 1, 1000, 1000, 0, 1, 'acquire', 0, 0 FROM @leases ON CONFLICT (KEY) DO UPDATE SET epoch = 1`,
		"merge":                     `MERGE INTO @leases l USING @leases r ON l.KEY = r.KEY WHEN MATCHED THEN DELETE`,
		"emptied by a with":         `WITH gone AS (DELETE FROM @leases RETURNING *) SELECT count(*) FROM gone`,
		"negative retention":        `UPDATE @store SET keep_renewals = -1`,
		"a ttl beyond the protocol": `SELECT @lease_change(KEY, owner, epoch, 'renew', 86400000) FROM @leases`,
	},
	Forbidden: map[string]string{
		"disable a trigger": `ALTER TABLE @leases DISABLE TRIGGER leases_rules`,
		"replica role":      `SET session_replication_role = replica`,
		"replace a rule":    `CREATE OR REPLACE FUNCTION @leases_rules() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'`,
		"call a helper":     `SELECT @clock_ms()`,
		"lock the rows":     `SELECT * FROM @leases FOR UPDATE`,
		"drop the schema":   `DROP SCHEMA leasehold CASCADE`,
	},
	Modes: []string{"", "SET session_replication_role = replica", "SET search_path = pg_temp, public"},
}

func TestServer(t *testing.T) { sqltest.Run(t, subject) }
