package sqltest

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/storetest"
)

// seed makes a record at epoch 3, floor 2, held by owner c.
func seed(t *testing.T, store Store, key messages.Key) messages.Lease {
	t.Helper()
	_, err := store.SetDeployment(t.Context(), "deployment.1")
	require.NoError(t, err)
	for i, owner := range []string{"a", "b", "c"} {
		lease, err := store.Acquire(t.Context(), key, owner, time.Hour)
		require.NoError(t, err)
		if i == 1 {
			require.NoError(t, store.MarkForgotten(t.Context(), key, owner, lease.Epoch))
		}
		if i < 2 {
			require.NoError(t, store.Release(t.Context(), key, owner, lease.Epoch))
		}
	}
	require.NoError(t, store.MarkLineage(t.Context(), key, "c", 3))
	lease, err := store.Renew(t.Context(), key, "c", 3, time.Hour)
	require.NoError(t, err)
	return lease
}

// attacks are statements that every database understands; KEY is the column, and tables are written @name.
var attacks = map[string]string{
	"epoch goes back":                `UPDATE @leases SET epoch = epoch - 1, seq = seq + 1, op = 'acquire'`,
	"epoch goes back, as a renewal":  `UPDATE @leases SET epoch = epoch - 1, seq = seq + 1, op = 'renew'`,
	"epoch moves by two":             `UPDATE @leases SET epoch = epoch + 2, seq = seq + 1, op = 'acquire'`,
	"epoch moves without a grant":    `UPDATE @leases SET epoch = epoch + 1, seq = seq + 1, op = 'renew'`,
	"a grant at the same epoch":      `UPDATE @leases SET owner = 'z', seq = seq + 1, op = 'acquire'`,
	"epoch is null":                  `UPDATE @leases SET epoch = NULL, seq = seq + 1`,
	"floor goes down":                `UPDATE @leases SET floor = floor - 1, seq = seq + 1, op = 'renew'`,
	"floor goes down with a grant":   `UPDATE @leases SET floor = 0, epoch = epoch + 1, seq = seq + 1, op = 'acquire'`,
	"floor above the epoch":          `UPDATE @leases SET floor = epoch + 1, seq = seq + 1, op = 'forget'`,
	"floor is null":                  `UPDATE @leases SET floor = NULL, seq = seq + 1, op = 'forget'`,
	"lineage goes down":              `UPDATE @leases SET lineage = 0, seq = seq + 1, op = 'lineage'`,
	"lineage goes down, as a grant":  `UPDATE @leases SET lineage = 0, epoch = epoch + 1, seq = seq + 1, op = 'acquire'`,
	"lineage above the epoch":        `UPDATE @leases SET lineage = epoch + 1, seq = seq + 1, op = 'lineage'`,
	"lineage without a mark":         `UPDATE @leases SET lineage = epoch + 1, epoch = epoch + 1, seq = seq + 1, op = 'acquire'`,
	"lineage is null":                `UPDATE @leases SET lineage = NULL, seq = seq + 1, op = 'lineage'`,
	"a reseed that lowers":           `UPDATE @leases SET owner = 'lease-reseed', epoch = epoch - 1, end_ms = at_ms, seq = seq + 1, op = 'reseed'`,
	"a reseed at the same epoch":     `UPDATE @leases SET owner = 'lease-reseed', end_ms = at_ms, seq = seq + 1, op = 'reseed'`,
	"a reseed that grants":           `UPDATE @leases SET owner = 'lease-reseed', epoch = epoch + 1, end_ms = at_ms + 1000, seq = seq + 1, op = 'reseed'`,
	"a reseed by somebody":           `UPDATE @leases SET owner = 'z', epoch = epoch + 1, end_ms = at_ms, seq = seq + 1, op = 'reseed'`,
	"owner changes within an epoch":  `UPDATE @leases SET owner = 'z', seq = seq + 1, op = 'renew'`,
	"no owner":                       `UPDATE @leases SET owner = '', epoch = epoch + 1, seq = seq + 1, op = 'acquire'`,
	"key changes":                    `UPDATE @leases SET KEY = 'x/y', seq = seq + 1`,
	"change without an entry":        `UPDATE @leases SET end_ms = end_ms + 1`,
	"change in the past":             `UPDATE @leases SET at_ms = at_ms - 1, seq = seq + 1, op = 'renew'`,
	"an unknown operation":           `UPDATE @leases SET seq = seq + 1, op = 'steal'`,
	"a lease without end":            `UPDATE @leases SET seq = seq + 1, op = 'renew', end_ms = 9000000000000`,
	"deleted row":                    `DELETE FROM @leases`,
	"inserted twice":                 `INSERT INTO @leases SELECT KEY, 'z', 1, 1000, 1000, 0, 1, 'acquire', 0, 0 FROM (SELECT * FROM @leases) l`,
	"begins above epoch 1":           `INSERT INTO @leases VALUES ('x/y', 'z', 7, 1000, 1000, 0, 1, 'acquire', 0, 0)`,
	"begins with a lineage":          `INSERT INTO @leases VALUES ('x/y', 'z', 1, 1000, 1000, 0, 1, 'acquire', 0, 1)`,
	"begins with a reseed by nobody": `INSERT INTO @leases VALUES ('x/y', 'z', 5, 1000, 0, 0, 1, 'reseed', 0, 0)`,
	"begins with a reseed that runs": `INSERT INTO @leases VALUES ('x/y', 'lease-reseed', 5, 1000, 1000, 0, 1, 'reseed', 0, 0)`,
	"begins with a floor":            `INSERT INTO @leases VALUES ('x/y', 'z', 1, 1000, 1000, 1, 1, 'acquire', 0, 0)`,
	"trail: an entry is deleted":     `DELETE FROM @trail WHERE op = 'acquire'`,
	"trail: a renewal is deleted":    `DELETE FROM @trail WHERE op = 'renew'`,
	"trail: an entry is changed":     `UPDATE @trail SET owner = 'z'`,
	"trail: an entry is forged":      `INSERT INTO @trail SELECT KEY, seq + 1, 'acquire', 'z', 4, 1000, 0, 0, 0, 0 FROM @leases`,
	"trail: an entry is made up":     `INSERT INTO @trail VALUES ('x/y', 1, 'acquire', 'z', 1, 1000, 1000, 0, 0, 0)`,
	"trail: the newest comes twice":  `INSERT INTO @trail SELECT KEY, seq, op, owner, epoch, ttl_ms, end_ms, floor, at_ms, lineage FROM @leases`,
	"the store's row is deleted":     `DELETE FROM @store`,
	"a second store":                 `INSERT INTO @store VALUES (2, 1, 0, '')`,
	"another deployment":             `UPDATE @store SET deployment = 'x'`,
	"no deployment":                  `UPDATE @store SET deployment = ''`,
	"the deployment is null":         `UPDATE @store SET deployment = NULL`,
	"the store's row has another id": `UPDATE @store SET id = 2`,
}

func (s Subject) statement(text string) string {
	return strings.NewReplacer("@", s.Prefix, "KEY", s.Key).Replace(text)
}

// The tables refuse what breaks the protocol, whoever asks: here it is their owner.
func (s Subject) testAttacks(t *testing.T) {
	store, dsn := s.fresh(t, Options{})
	key := storetest.NewKey()
	lease := seed(t, store, key)
	trail, err := store.History(t.Context(), key)
	require.NoError(t, err)
	all := map[string]string{}
	for _, m := range []map[string]string{attacks, s.Attacks} {
		for name, statement := range m {
			all[name] = s.statement(statement)
		}
	}
	for _, mode := range s.Modes {
		conn := s.raw(t, dsn)
		if mode != "" {
			_, err := conn.ExecContext(t.Context(), mode)
			require.NoError(t, err)
		}
		for name, statement := range all {
			t.Run(strings.TrimSpace(mode+" "+name), func(t *testing.T) {
				_, err := conn.ExecContext(t.Context(), statement)
				require.True(t, s.Refused(err), "%v", err)
				got, ok, err := store.Read(t.Context(), key)
				require.NoError(t, err)
				require.True(t, ok)
				require.Equal(t, lease, got)
				after, err := store.History(t.Context(), key)
				require.NoError(t, err)
				require.Equal(t, trail, after)
			})
		}
	}
	leases, err := store.Leases(t.Context(), "", 10)
	require.NoError(t, err)
	require.Equal(t, []messages.Lease{lease}, leases)

	// Intact, and usable.
	require.NoError(t, store.Release(t.Context(), key, "c", 3))
	next, err := store.Acquire(t.Context(), key, "d", time.Second)
	require.NoError(t, err)
	require.Equal(t, uint64(4), next.Epoch)
	require.Equal(t, uint64(2), next.Floor)

	// What the rules do let through is in the trail, whoever wrote it.
	_, err = s.raw(t, dsn).ExecContext(t.Context(), s.statement(`UPDATE @leases SET owner = 'z', epoch = 5, seq = seq + 1, op = 'acquire'`))
	require.NoError(t, err)
	trail, err = store.History(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, "z", trail[len(trail)-1].Owner)
	require.Equal(t, uint64(5), checkTrail(t, trail))
}

// forbidden is what a node's user must not be able to do, in statements that every database understands.
var forbidden = map[string]string{
	"delete":           `DELETE FROM @leases`,
	"truncate":         `TRUNCATE TABLE @leases`,
	"truncate trail":   `TRUNCATE TABLE @trail`,
	"drop":             `DROP TABLE @trail`,
	"update":           `UPDATE @leases SET seq = seq + 1, op = 'renew'`,
	"insert":           `INSERT INTO @leases VALUES ('x/y', 'z', 1, 1000, 1000, 0, 1, 'acquire', 0, 0)`,
	"trim the trail":   `DELETE FROM @trail WHERE op = 'renew'`,
	"change retention": `UPDATE @store SET keep_renewals = 1`,
	"alter":            `ALTER TABLE @leases ADD COLUMN more INT`,
	"new table":        `CREATE TABLE @more (a INT)`,
}

// A node's user can do what the suite needs (see testConformance), and nothing else.
func (s Subject) testGrants(t *testing.T) {
	server, name := s.Database(t)
	owner := s.open(t, server.DSN("", name), Options{Migrate: true})
	user := s.Node(t, server, name)
	key := storetest.NewKey()
	lease := seed(t, owner, key)
	conn := s.raw(t, server.DSN(user, name))
	for _, m := range []map[string]string{forbidden, s.Forbidden} {
		for what, statement := range m {
			t.Run(what, func(t *testing.T) {
				_, err := conn.ExecContext(t.Context(), s.statement(statement))
				require.True(t, s.Denied(err), "%v", err)
			})
		}
	}
	got, _, err := owner.Read(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, lease, got)
	trail, err := owner.History(t.Context(), key)
	require.NoError(t, err)
	require.Len(t, trail, 8)
}

func (s Subject) testRetention(t *testing.T) {
	all, dsn := s.fresh(t, Options{KeepRenewals: -1})
	key := storetest.NewKey()
	rounds := func(store Store) {
		for range 3 {
			lease, err := store.Acquire(t.Context(), key, "a", time.Second)
			require.NoError(t, err)
			for range 10 {
				_, err := store.Renew(t.Context(), key, "a", lease.Epoch, time.Second)
				require.NoError(t, err)
			}
			require.NoError(t, store.Release(t.Context(), key, "a", lease.Epoch))
		}
	}
	count := func(store Store) map[string]int {
		trail, err := store.History(t.Context(), key)
		require.NoError(t, err)
		checkTrail(t, trail)
		ops := map[string]int{}
		for _, e := range trail {
			ops[e.Op]++
		}
		return ops
	}
	rounds(all)
	require.Equal(t, map[string]int{"acquire": 3, "renew": 30, "release": 3}, count(all))
	few := s.open(t, dsn, Options{Migrate: true, KeepRenewals: 4})
	rounds(few)
	ops := count(few)
	require.Equal(t, 6, ops["acquire"])
	require.Equal(t, 6, ops["release"])
	require.LessOrEqual(t, ops["renew"], 4)
	require.Positive(t, ops["renew"])

	// Even then nothing else can be deleted, nor the newest renewals.
	conn := s.raw(t, dsn)
	for _, op := range []string{"acquire", "release", "renew"} {
		_, err := conn.ExecContext(t.Context(), s.statement(`DELETE FROM @trail WHERE op = '`+op+`'`))
		require.True(t, s.Refused(err), "%s: %v", op, err)
	}
}
