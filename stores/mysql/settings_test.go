package mysql_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/mysql"
	"github.com/leasehold/leasehold/stores/storetest"
	"github.com/leasehold/leasehold/stores/storetest/servers"
)

func migrated(t *testing.T) (*servers.Server, string) {
	server, name := common.Database(t)
	s, err := mysql.Open(t.Context(), mysql.Config{DSN: server.DSN("", name), Migrate: true})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	return server, name
}

// The harm is seen at Open, and by a pool whose server changes under it.
func TestSettings_OfTheServer(t *testing.T) {
	server := subject.Private(t)
	proxy, err := servers.NewProxy(server.Addr())
	require.NoError(t, err)
	defer func() { require.NoError(t, proxy.Close()) }()
	cfg := mysql.Config{DSN: server.DSN("", "test"), Migrate: true}
	s, err := mysql.Open(t.Context(), mysql.Config{DSN: server.DSNVia(proxy.Addr(), "", "test"), Migrate: true, MaxConns: 1})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	for _, tt := range []struct{ name, bad, good string }{
		{"innodb_flush_log_at_trx_commit", "2", "1"},
		{"sync_binlog", "0", "1"},
		{"sql_mode", "''", "DEFAULT"},
		{"autocommit", "0", "1"},
		{"read_only", "1", "0"},
	} {
		require.NoError(t, server.Exec(t.Context(), "", `SET GLOBAL `+tt.name+` = `+tt.bad))
		_, err := mysql.Open(t.Context(), cfg)
		require.ErrorIs(t, err, messages.ErrInvalidArgument)
		require.Equal(t, tt.name, messages.AsError(err).Object)
		unsafe := cfg
		unsafe.AllowUnsafe = true
		u, err := mysql.Open(t.Context(), unsafe)
		require.NoError(t, err)
		require.NoError(t, u.Close())

		proxy.CutAll()
		_, err = s.Acquire(t.Context(), storetest.NewKey(), "a", time.Second)
		require.ErrorIs(t, err, messages.ErrUnavailable)
		require.ErrorIs(t, err, messages.ErrInvalidArgument)
		require.Equal(t, tt.name, messages.AsError(err).Object)
		require.NoError(t, server.Exec(t.Context(), "", `SET GLOBAL `+tt.name+` = `+tt.good))
		_, err = s.Acquire(t.Context(), storetest.NewKey(), "a", time.Second)
		require.NoError(t, err)
	}
}

// The time of the store depends neither on a time zone nor on what a session says that it is.
func TestClock_IsTheServersOwn(t *testing.T) {
	server, name := migrated(t)
	s, err := mysql.Open(t.Context(), mysql.Config{DSN: server.DSN("", name) + "?time_zone=%27%2B13:00%27&timestamp=1000000"})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	before := time.Now().Truncate(time.Millisecond)
	lease, err := s.Acquire(t.Context(), storetest.NewKey(), "a", time.Minute)
	require.NoError(t, err)
	require.WithinRange(t, lease.End, before.Add(time.Minute), time.Now().Add(time.Minute))
}

func TestSchema_WhatIsMissingOrChangedIsRefused(t *testing.T) {
	for object, statement := range map[string]string{
		"trigger leases_update":      `DROP TRIGGER leases_update`,
		"trigger leases_insert":      `CREATE OR REPLACE TRIGGER leases_insert BEFORE INSERT ON leases FOR EACH ROW SET NEW.seq = 1`,
		"trigger more":               `CREATE TRIGGER more BEFORE UPDATE ON leases FOR EACH ROW SET NEW.seq = OLD.seq + 1`,
		"routine lease_change":       `ALTER PROCEDURE lease_change SQL SECURITY INVOKER`,
		"parameter lease_step.o_end": `CREATE OR REPLACE PROCEDURE lease_step() SELECT 1`,
		"routine store_objects":      `DROP PROCEDURE store_objects`,
		"reference trail_of_lease":   `ALTER TABLE trail DROP FOREIGN KEY trail_of_lease`,
		"index trail.trail_op.1":     `ALTER TABLE trail DROP KEY trail_op, ADD KEY other (` + "`key`" + `)`,
		"column leases.owner":        `ALTER TABLE leases MODIFY owner VARBINARY(100) NOT NULL`,
		"column leases.more":         `ALTER TABLE leases ADD COLUMN more INT`,
		"table store":                `ALTER TABLE store ENGINE = Aria`,
		"table more":                 `CREATE TABLE more (b INT)`,
		"event more":                 `CREATE EVENT more ON SCHEDULE EVERY 1 YEAR DO SELECT 1`,
		"database":                   `UPDATE store SET version = 2`,
	} {
		t.Run(object, func(t *testing.T) {
			server, name := migrated(t)
			require.NoError(t, server.Exec(t.Context(), name, statement))
			want := object
			if want == "database" {
				want += " " + name
			}
			for _, migrate := range []bool{false, true} {
				_, err := mysql.Open(t.Context(), mysql.Config{DSN: server.DSN("", name), Migrate: migrate})
				require.ErrorIs(t, err, messages.ErrCorrupt)
				require.Equal(t, want, messages.AsError(err).Object)
			}
		})
	}
}

// A migration that was cut short is finished by the next; until then there is no lease store.
func TestMigrate_FinishesWhatWasCutShort(t *testing.T) {
	server, name := migrated(t)
	require.NoError(t, server.Exec(t.Context(), name, `DROP TRIGGER store_delete`, `DELETE FROM store`, `DROP PROCEDURE lease_acquire`))
	cfg := mysql.Config{DSN: server.DSN("", name)}
	_, err := mysql.Open(t.Context(), cfg)
	require.ErrorIs(t, err, messages.ErrNotFound)
	cfg.Migrate = true
	s, err := mysql.Open(t.Context(), cfg)
	require.NoError(t, err)
	_, err = s.Acquire(t.Context(), storetest.NewKey(), "a", time.Second)
	require.NoError(t, err)
	require.NoError(t, s.Close())

	// But records without a store are not a beginning.
	require.NoError(t, server.Exec(t.Context(), name, `DROP TRIGGER store_delete`, `DELETE FROM store`))
	_, err = mysql.Open(t.Context(), cfg)
	require.ErrorIs(t, err, messages.ErrCorrupt)
}

func TestOpen_RefusesAConfigThatCannotWork(t *testing.T) {
	const dsn = "me:secret@tcp(127.0.0.1:1)/x"
	for _, cfg := range []mysql.Config{
		{}, {DSN: "me:secret@tcp(127.0.0.1:1"}, {DSN: "me:secret@tcp(127.0.0.1:1)/"}, {DSN: dsn, MaxConns: -1}, {DSN: dsn, Timeout: -1},
		{DSN: dsn, KeepRenewals: -2, Migrate: true}, {DSN: dsn, KeepRenewals: 3},
	} {
		_, err := mysql.Open(context.Background(), cfg)
		require.ErrorIs(t, err, messages.ErrInvalidArgument, "%+v", cfg)
		require.NotContains(t, err.Error(), "secret")
	}
	_, err := mysql.Open(context.Background(), mysql.Config{DSN: dsn})
	require.ErrorIs(t, err, messages.ErrUnavailable)
	require.NotContains(t, err.Error(), "secret")
}
