package mysql_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	driver "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/stores/internal/sqllease/sqltest"
	"github.com/leasehold/leasehold/stores/mysql"
	"github.com/leasehold/leasehold/stores/storetest/servers"
)

func open(ctx context.Context, dsn string, o sqltest.Options) (sqltest.Store, error) {
	s, err := mysql.Open(ctx, mysql.Config{DSN: dsn, Migrate: o.Migrate, KeepRenewals: o.KeepRenewals, MaxConns: o.MaxConns, Timeout: o.Timeout})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func number(numbers ...uint16) func(error) bool {
	return func(err error) bool {
		var e *driver.MySQLError
		return errors.As(err, &e) && slices.Contains(numbers, e.Number)
	}
}

// node makes an account with the documented grants.
func node(t testing.TB, server *servers.Server, name string) string {
	user := "node_" + name
	statements := append([]string{"CREATE USER '" + user + "'@'127.0.0.1'"}, mysql.Grants(name, user, "127.0.0.1")...)
	require.NoError(t, server.Exec(t.Context(), "", statements...))
	return user
}

var subject = sqltest.Subject{
	Open:     open,
	Database: common.Database,
	// With a binary log, as a server with replicas has it.
	Private: func(t testing.TB) *servers.Server {
		server := servers.ForTest(t, func(ctx context.Context) (*servers.Server, error) {
			return servers.MariaDB(ctx, "--log-bin=binlog", "--sync-binlog=1")
		})
		t.Cleanup(func() { require.NoError(t, server.Stop()) })
		require.NoError(t, server.Exec(t.Context(), "", `CREATE DATABASE test`))
		return server
	},
	Node:    node,
	Driver:  "mysql",
	Key:     "`key`",
	Refused: number(1644, 1062, 1048, 1701, 1451, 1452),
	Denied:  number(1142, 1143, 1044, 1227, 1370, 1290),
	Attacks: map[string]string{
		"replaced row":                `REPLACE INTO @leases SELECT KEY, 'z', 1, 1000, 1000, 0, 1, 'acquire', 0, 0 FROM (SELECT * FROM @leases) l`,
		"upsert":                      `INSERT INTO @leases SELECT KEY, 'z', 1, 1000, 1000, 0, 1, 'acquire', 0, 0 FROM (SELECT * FROM @leases) l on duplicate key update epoch = 1`,
		"ignored errors":              `UPDATE IGNORE @leases SET epoch = epoch - 1, seq = seq + 1, op = 'acquire'`,
		"ignored null":                `UPDATE IGNORE @leases SET floor = NULL, seq = seq + 1, op = 'forget'`,
		"deleted, errors ignored":     `DELETE IGNORE FROM @leases`,
		"truncated":                   `TRUNCATE TABLE @leases`,
		"trail: an entry is replaced": `REPLACE INTO @trail SELECT KEY, seq, op, 'z', epoch, ttl_ms, end_ms, floor, at_ms, lineage FROM (SELECT * FROM @trail) l`,
		"the store is replaced":       `REPLACE INTO @store VALUES (1, 1, 0, '')`,
		"negative retention":          `UPDATE @store SET keep_renewals = -1`,
		"a ttl beyond the protocol":   `CALL lease_acquire('x/y', 'z', 86400000)`,
	},
	Forbidden: map[string]string{
		"drop a trigger":     `DROP TRIGGER leases_update`,
		"new trigger":        `CREATE TRIGGER more BEFORE UPDATE ON leases FOR EACH ROW SET NEW.epoch = 1`,
		"call a helper":      `CALL lease_read('x/y', 1, 2, 3, 4, 5, 6, 7)`,
		"replace a rule":     `CREATE OR REPLACE PROCEDURE lease_change() SELECT 1`,
		"change the server":  `SET GLOBAL innodb_flush_log_at_trx_commit = 0`,
		"replace with a row": `REPLACE INTO leases VALUES ('x/y', 'z', 1, 1000, 1000, 0, 1, 'acquire', 0, 0)`,
	},
	Modes: []string{"", "SET sql_mode = ''", "SET check_constraint_checks = 0, sql_mode = ''"},
}

func TestServer(t *testing.T) { sqltest.Run(t, subject) }
