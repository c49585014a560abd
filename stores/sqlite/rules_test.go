package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/mattn/go-sqlite3"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/sqlite"
	"github.com/leasehold/leasehold/stores/storetest"
)

// raw opens a lease file as any other program would.
func raw(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+path+"?_busy_timeout=5000")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// seed makes a record at epoch 3, floor 2, held by owner c.
func seed(t *testing.T, store *sqlite.Store, key messages.Key) messages.Lease {
	t.Helper()
	_, err := store.SetDeployment(t.Context(), "deployment.1")
	require.NoError(t, err)
	var lease messages.Lease
	for i, owner := range []string{"a", "b", "c"} {
		var err error
		lease, err = store.Acquire(t.Context(), key, owner, time.Hour)
		require.NoError(t, err)
		if i == 1 {
			require.NoError(t, store.MarkForgotten(t.Context(), key, owner, lease.Epoch))
		}
		if i < 2 {
			require.NoError(t, store.Release(t.Context(), key, owner, lease.Epoch))
		}
	}
	require.NoError(t, store.MarkLineage(t.Context(), key, "c", 3))
	lease, err = store.Renew(t.Context(), key, "c", 3, time.Hour)
	require.NoError(t, err)
	return lease
}

func TestB3_TheFileRefusesWhatBreaksTheProtocol(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases.db")
	store := open(t, sqlite.Config{Path: path})
	key := storetest.NewKey()
	lease := seed(t, store, key)
	trail, err := store.History(t.Context(), key)
	require.NoError(t, err)
	db := raw(t, path)

	const row = ` SELECT key, 'z', 1, 1000, 0, 0, 1, 'acquire', 0, 0 FROM leases LIMIT 1`
	for name, statement := range map[string]string{
		"epoch goes back":                   `UPDATE leases SET epoch = epoch - 1, seq = seq + 1, op = 'acquire'`,
		"epoch goes back, as a renewal":     `UPDATE leases SET epoch = epoch - 1, seq = seq + 1, op = 'renew'`,
		"epoch moves by two":                `UPDATE leases SET epoch = epoch + 2, seq = seq + 1, op = 'acquire'`,
		"epoch moves without a grant":       `UPDATE leases SET epoch = epoch + 1, seq = seq + 1, op = 'renew'`,
		"a grant at the same epoch":         `UPDATE leases SET owner = 'z', seq = seq + 1, op = 'acquire'`,
		"epoch is null":                     `UPDATE leases SET epoch = NULL, seq = seq + 1`,
		"epoch is text":                     `UPDATE leases SET epoch = 'four', seq = seq + 1, op = 'acquire'`,
		"floor goes down":                   `UPDATE leases SET floor = floor - 1, seq = seq + 1, op = 'renew'`,
		"floor goes down with a grant":      `UPDATE leases SET floor = 0, epoch = epoch + 1, seq = seq + 1, op = 'acquire'`,
		"floor above the epoch":             `UPDATE leases SET floor = epoch + 1, seq = seq + 1, op = 'forget'`,
		"floor is null":                     `UPDATE leases SET floor = NULL, seq = seq + 1, op = 'forget'`,
		"lineage goes down":                 `UPDATE leases SET lineage = 0, seq = seq + 1, op = 'lineage'`,
		"lineage goes down, as a grant":     `UPDATE leases SET lineage = 0, epoch = epoch + 1, seq = seq + 1, op = 'acquire'`,
		"lineage above the epoch":           `UPDATE leases SET lineage = epoch + 1, seq = seq + 1, op = 'lineage'`,
		"lineage without a mark":            `UPDATE leases SET lineage = epoch + 1, epoch = epoch + 1, seq = seq + 1, op = 'acquire'`,
		"a reseed that lowers":              `UPDATE leases SET owner = 'lease-reseed', epoch = epoch - 1, end_ms = at_ms, seq = seq + 1, op = 'reseed'`,
		"a reseed at the same epoch":        `UPDATE leases SET owner = 'lease-reseed', end_ms = at_ms, seq = seq + 1, op = 'reseed'`,
		"a reseed that grants":              `UPDATE leases SET owner = 'lease-reseed', epoch = epoch + 1, end_ms = at_ms + 1000, seq = seq + 1, op = 'reseed'`,
		"a reseed by somebody":              `UPDATE leases SET owner = 'z', epoch = epoch + 1, end_ms = at_ms, seq = seq + 1, op = 'reseed'`,
		"begins with a reseed by nobody":    `INSERT INTO leases VALUES ('x/y', 'z', 5, 1000, 0, 0, 1, 'reseed', 0, 0)`,
		"owner changes within an epoch":     `UPDATE leases SET owner = 'z', seq = seq + 1, op = 'renew'`,
		"no owner":                          `UPDATE leases SET owner = '', epoch = epoch + 1, seq = seq + 1, op = 'acquire'`,
		"key changes":                       `UPDATE leases SET key = 'x/y', seq = seq + 1`,
		"change without an entry":           `UPDATE leases SET end_ms = end_ms + 1`,
		"change in the past":                `UPDATE leases SET at_ms = at_ms - 1, seq = seq + 1, op = 'renew'`,
		"an unknown operation":              `UPDATE leases SET seq = seq + 1, op = 'steal'`,
		"deleted row":                       `DELETE FROM leases`,
		"replaced row":                      `REPLACE INTO leases` + row,
		"inserted twice":                    `INSERT INTO leases` + row,
		"begins above epoch 1":              `INSERT INTO leases VALUES ('x/y', 'z', 7, 1000, 0, 0, 1, 'acquire', 0, 0)`,
		"begins with a floor":               `INSERT INTO leases VALUES ('x/y', 'z', 1, 1000, 0, 1, 1, 'acquire', 0, 0)`,
		"update or replace":                 `UPDATE OR REPLACE leases SET epoch = 1, seq = 1, op = 'acquire'`,
		"upsert":                            `INSERT INTO leases` + row + ` ON CONFLICT DO UPDATE SET epoch = 1`,
		"trail: an entry is deleted":        `DELETE FROM trail WHERE op = 'acquire'`,
		"trail: a renewal is deleted":       `DELETE FROM trail WHERE op = 'renew'`,
		"trail: an entry is changed":        `UPDATE trail SET owner = 'z'`,
		"trail: an entry is forged":         `INSERT INTO trail SELECT key, seq + 1, 'acquire', 'z', 4, 1000, 0, 0, 0, 0 FROM leases`,
		"trail: an entry is replaced":       `REPLACE INTO trail SELECT key, seq, op, 'z', epoch, ttl_ms, end_ms, floor, at_ms, lineage FROM trail`,
		"trail: the newest is written anew": `REPLACE INTO trail SELECT key, seq, op, owner, epoch, ttl_ms, end_ms, floor, at_ms, lineage FROM leases`,
		"the clock goes back":               `UPDATE store SET newest_ms = newest_ms - 1`,
		"the clock is deleted":              `DELETE FROM store`,
		"the clock is replaced":             `REPLACE INTO store VALUES (1, 0, '', 0, 0, '', 0)`,
		"a second clock":                    `INSERT INTO store VALUES (2, 0, '', 0, 0, '', 0)`,
		"another deployment":                `UPDATE store SET deployment = 'x'`,
		"no deployment":                     `UPDATE store SET deployment = ''`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := db.Exec(statement)
			var refused sqlite3.Error
			require.ErrorAs(t, err, &refused)
			require.Equal(t, sqlite3.ErrConstraint, refused.Code, "%v", err)

			got, ok, err := store.Read(t.Context(), key)
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, lease, got)
			after, err := store.History(t.Context(), key)
			require.NoError(t, err)
			require.Equal(t, trail, after)
		})
	}

	// Intact, and usable.
	require.NoError(t, store.Release(t.Context(), key, "c", 3))
	next, err := store.Acquire(t.Context(), key, "d", time.Second)
	require.NoError(t, err)
	require.Equal(t, uint64(4), next.Epoch)
	require.Equal(t, uint64(2), next.Floor)
}

// What the triggers do let through is in the trail, whoever wrote it.
func TestB4_AChangeByAnotherProgramIsInTheTrail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases.db")
	store := open(t, sqlite.Config{Path: path})
	key := storetest.NewKey()
	seed(t, store, key)
	_, err := raw(t, path).Exec(`UPDATE leases SET owner = 'z', epoch = 4, seq = seq + 1, op = 'acquire'`)
	require.NoError(t, err)
	trail, err := store.History(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, "z", trail[len(trail)-1].Owner)
	require.Equal(t, uint64(4), trail[len(trail)-1].Epoch)
}

func TestB4_TheTrailKeepsEverythingButOldRenewalsIfToldTo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases.db")
	key := storetest.NewKey()
	rounds := func(store *sqlite.Store) {
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
	count := func(store *sqlite.Store) map[string]int {
		trail, err := store.History(t.Context(), key)
		require.NoError(t, err)
		ops := map[string]int{}
		for i, e := range trail {
			ops[e.Op]++
			if i > 0 {
				require.Greater(t, e.Seq, trail[i-1].Seq)
			}
		}
		return ops
	}
	all := open(t, sqlite.Config{Path: path, NoSync: true})
	rounds(all)
	require.Equal(t, map[string]int{"acquire": 3, "renew": 30, "release": 3}, count(all))

	few := open(t, sqlite.Config{Path: path, NoSync: true, KeepRenewals: 4})
	rounds(few)
	ops := count(few)
	require.Equal(t, 6, ops["acquire"])
	require.Equal(t, 6, ops["release"])
	require.LessOrEqual(t, ops["renew"], 4)
	require.Positive(t, ops["renew"])

	// Even then nothing else can be deleted, nor the newest renewals.
	db := raw(t, path)
	for _, op := range []string{"acquire", "release", "renew"} {
		_, err := db.Exec(`DELETE FROM trail WHERE op = ?`, op)
		require.Error(t, err, op)
	}
}
