package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/postgres"
	"github.com/leasehold/leasehold/stores/storetest"
	"github.com/leasehold/leasehold/stores/storetest/servers"
)

// roleWith is a node's role whose sessions have a setting.
func roleWith(t *testing.T, server *servers.Server, name, setting string) string {
	role := node(t, server, name)
	require.NoError(t, server.Exec(t.Context(), name, fmt.Sprintf(`ALTER ROLE %s SET %s`, role, setting)))
	return role
}

func migrated(t *testing.T) (*servers.Server, string) {
	server, name := common.Database(t)
	s, err := postgres.Open(t.Context(), postgres.Config{DSN: server.DSN("", name), Migrate: true})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	return server, name
}

func refusedFor(t *testing.T, object string, cfg postgres.Config) {
	t.Helper()
	_, err := postgres.Open(t.Context(), cfg)
	require.ErrorIs(t, err, messages.ErrInvalidArgument)
	require.Equal(t, object, messages.AsError(err).Object)
	cfg.AllowUnsafe = true
	s, err := postgres.Open(t.Context(), cfg)
	require.NoError(t, err)
	require.NoError(t, s.Close())
}

func TestSettings_OfTheSession(t *testing.T) {
	for setting, object := range map[string]string{
		"synchronous_commit = off":           "synchronous_commit",
		"default_transaction_read_only = on": "default_transaction_read_only",
	} {
		server, name := migrated(t)
		refusedFor(t, object, postgres.Config{DSN: server.DSN(roleWith(t, server, name, setting), name)})
	}
}

// The harm is seen at Open, and by a pool whose server changes under it.
func TestSettings_OfTheServer(t *testing.T) {
	server := subject.Private(t)
	proxy, err := servers.NewProxy(server.Addr())
	require.NoError(t, err)
	defer func() { require.NoError(t, proxy.Close()) }()
	cfg := postgres.Config{DSN: server.DSN("", "test"), Migrate: true}
	s, err := postgres.Open(t.Context(), postgres.Config{DSN: server.DSNVia(proxy.Addr(), "", "test"), Migrate: true, MaxConns: 1})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	for _, name := range []string{"fsync", "full_page_writes"} {
		set := func(value string) {
			require.NoError(t, server.Exec(t.Context(), "", `ALTER SYSTEM SET `+name+` = `+value, `SELECT pg_reload_conf()`))
			require.Eventually(t, func() bool {
				return server.Exec(t.Context(), "", fmt.Sprintf(`SELECT 1 / (current_setting('%s') = '%s')::int`, name, value)) == nil
			}, time.Minute, 10*time.Millisecond)
		}
		set("off")
		refusedFor(t, name, cfg)
		proxy.CutAll()
		_, err := s.Acquire(t.Context(), storetest.NewKey(), "a", time.Second)
		require.ErrorIs(t, err, messages.ErrUnavailable)
		require.ErrorIs(t, err, messages.ErrInvalidArgument)
		require.Equal(t, name, messages.AsError(err).Object)
		set("on")
		_, err = s.Acquire(t.Context(), storetest.NewKey(), "a", time.Second)
		require.NoError(t, err)
	}
}

// The time of the store does not depend on anybody's time zone.
func TestClock_WithoutTimeZones(t *testing.T) {
	server, name := migrated(t)
	role := roleWith(t, server, name, "timezone = 'Pacific/Kiritimati'")
	s, err := postgres.Open(t.Context(), postgres.Config{DSN: server.DSN(role, name)})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	before := time.Now().Truncate(time.Millisecond)
	lease, err := s.Acquire(t.Context(), storetest.NewKey(), "a", time.Minute)
	require.NoError(t, err)
	require.WithinRange(t, lease.End, before.Add(time.Minute), time.Now().Add(time.Minute))
}

func TestSchema_WhatIsMissingOrChangedIsRefused(t *testing.T) {
	for object, statement := range map[string]string{
		"trigger leases_rules":                 `ALTER TABLE leasehold.leases DISABLE TRIGGER leases_rules`,
		"trigger leases_delete":                `DROP TRIGGER leases_delete ON leasehold.leases`,
		"trigger more":                         `CREATE TRIGGER more BEFORE UPDATE ON leasehold.leases FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()`,
		"rule more":                            `CREATE RULE more AS ON UPDATE TO leasehold.leases DO INSTEAD NOTHING`,
		"constraint leases_check":              `ALTER TABLE leasehold.leases DROP CONSTRAINT leases_check`,
		"constraint trail_pkey":                `ALTER TABLE leasehold.trail DROP CONSTRAINT trail_pkey`,
		"function leases_rules()":              `CREATE OR REPLACE FUNCTION leasehold.leases_rules() RETURNS trigger LANGUAGE plpgsql SET search_path = leasehold, pg_temp AS 'BEGIN RETURN NEW; END'`,
		"function lease_renew_many(p_renewals": `ALTER FUNCTION leasehold.lease_renew_many(jsonb) RESET search_path`,
		"index leases_forgotten":               `DROP INDEX leasehold.leases_forgotten`,
		"column leases.more":                   `ALTER TABLE leasehold.leases ADD COLUMN more int`,
		"table leases":                         `ALTER TABLE leasehold.leases SET UNLOGGED`,
		"column more.a":                        `CREATE TABLE leasehold.more (a int)`,
		"schema leasehold":                     `UPDATE leasehold.store SET version = 2`,
	} {
		t.Run(object, func(t *testing.T) {
			server, name := migrated(t)
			require.NoError(t, server.Exec(t.Context(), name, statement))
			for _, migrate := range []bool{false, true} {
				_, err := postgres.Open(t.Context(), postgres.Config{DSN: server.DSN("", name), Migrate: migrate})
				require.ErrorIs(t, err, messages.ErrCorrupt)
				require.Equal(t, object, messages.AsError(err).Object)
			}
		})
	}
}

func TestOpen_RefusesAConfigThatCannotWork(t *testing.T) {
	for _, cfg := range []postgres.Config{
		{}, {DSN: "postgres://%zz"}, {DSN: "host=127.0.0.1", MaxConns: -1}, {DSN: "host=127.0.0.1", Timeout: -1},
		{DSN: "host=127.0.0.1", KeepRenewals: -2, Migrate: true}, {DSN: "host=127.0.0.1", KeepRenewals: 3},
		{DSN: "host=127.0.0.1", Schema: "public"}, {DSN: "host=127.0.0.1", Schema: `x"; DROP`}, {DSN: "host=127.0.0.1", Schema: "pg_x"},
	} {
		_, err := postgres.Open(context.Background(), cfg)
		require.ErrorIs(t, err, messages.ErrInvalidArgument, "%+v", cfg)
	}
	_, err := postgres.Open(context.Background(), postgres.Config{DSN: "postgres://me:secret@%zz/"})
	require.NotContains(t, err.Error(), "secret")
	_, err = postgres.Open(context.Background(), postgres.Config{DSN: "postgres://me:secret@127.0.0.1:1/x"})
	require.ErrorIs(t, err, messages.ErrUnavailable)
	require.NotContains(t, err.Error(), "secret")
}

// A standby answers with old records: it is refused, also where its primary has been in the pool before.
func TestSettings_AStandby(t *testing.T) {
	server := subject.Private(t)
	cfg := postgres.Config{DSN: server.DSN("", "test"), Migrate: true}
	s, err := postgres.Open(t.Context(), cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	require.NoError(t, server.Exec(t.Context(), "", `COPY (SELECT 1) TO PROGRAM 'cat > standby.signal'`))
	require.NoError(t, server.Kill())
	require.NoError(t, server.Start(t.Context()))
	cfg.Migrate = false
	_, err = postgres.Open(t.Context(), cfg)
	require.ErrorIs(t, err, messages.ErrInvalidArgument)
	require.Equal(t, "in_recovery", messages.AsError(err).Object)
	_, _, err = s.Read(t.Context(), storetest.NewKey())
	require.ErrorIs(t, err, messages.ErrUnavailable)
	require.ErrorIs(t, err, messages.ErrInvalidArgument)
}
