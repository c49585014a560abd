package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/leasehold/leasehold/messages"
)

const (
	applicationID = 0x4c48_4c53 // "LHLS": Leasehold lease store
	schemaVersion = 1
)

// object is one table, index or trigger. The text is compared byte for byte with what the file holds.
type object struct{ name, sql string }

// schema is everything in a lease file. The rules of the protocol that a record must obey stand here
// as triggers, and not only in Go, so that no program with access to the file, and no bug of ours,
// can grant an epoch twice. BEFORE INSERT triggers look for an existing row because the REPLACE
// conflict clause deletes without firing DELETE triggers.
var schema = []object{
	{"store", `CREATE TABLE store (
	id INTEGER PRIMARY KEY CHECK (id = 1),
	newest_ms INTEGER NOT NULL,
	clock_id TEXT NOT NULL,
	clock_ns INTEGER NOT NULL,
	at_ns INTEGER NOT NULL,
	deployment TEXT NOT NULL,
	keep_renewals INTEGER NOT NULL CHECK (keep_renewals >= 0)
) STRICT`},
	{"leases", `CREATE TABLE leases (
	key TEXT NOT NULL PRIMARY KEY,
	owner TEXT NOT NULL CHECK (owner <> ''),
	epoch INTEGER NOT NULL CHECK (epoch >= 1),
	ttl_ms INTEGER NOT NULL CHECK (ttl_ms > 0),
	end_ms INTEGER NOT NULL,
	floor INTEGER NOT NULL CHECK (floor >= 0 AND floor <= epoch),
	seq INTEGER NOT NULL CHECK (seq >= 1),
	op TEXT NOT NULL CHECK (op IN ('acquire', 'renew', 'release', 'forget', 'lineage', 'reseed')),
	at_ms INTEGER NOT NULL,
	lineage INTEGER NOT NULL CHECK (lineage >= 0 AND lineage <= epoch)
) STRICT, WITHOUT ROWID`},
	{"trail", `CREATE TABLE trail (
	key TEXT NOT NULL,
	seq INTEGER NOT NULL,
	op TEXT NOT NULL,
	owner TEXT NOT NULL,
	epoch INTEGER NOT NULL,
	ttl_ms INTEGER NOT NULL,
	end_ms INTEGER NOT NULL,
	floor INTEGER NOT NULL,
	at_ms INTEGER NOT NULL,
	lineage INTEGER NOT NULL,
	PRIMARY KEY (key, seq)
) STRICT, WITHOUT ROWID`},
	{"forgotten", `CREATE INDEX forgotten ON leases (key) WHERE floor > 0`},

	{"store_insert", `CREATE TRIGGER store_insert BEFORE INSERT ON store
WHEN EXISTS (SELECT 1 FROM store)
BEGIN SELECT RAISE(ABORT, 'leasehold: the store row is there already'); END`},
	{"store_update", `CREATE TRIGGER store_update BEFORE UPDATE ON store
WHEN NEW.newest_ms < OLD.newest_ms OR NEW.id <> OLD.id
BEGIN SELECT RAISE(ABORT, 'leasehold: the clock of the store goes back'); END`},
	{"store_deployment", `CREATE TRIGGER store_deployment BEFORE UPDATE ON store
WHEN OLD.deployment <> '' AND NEW.deployment <> OLD.deployment
BEGIN SELECT RAISE(ABORT, 'leasehold: the store belongs to another deployment'); END`},
	{"store_delete", `CREATE TRIGGER store_delete BEFORE DELETE ON store
BEGIN SELECT RAISE(ABORT, 'leasehold: the store row is never deleted'); END`},

	{"leases_insert", `CREATE TRIGGER leases_insert BEFORE INSERT ON leases
WHEN NEW.seq <> 1 OR EXISTS (SELECT 1 FROM leases WHERE key = NEW.key)
	OR NEW.op <> 'reseed' AND (NEW.epoch <> 1 OR NEW.floor <> 0 OR NEW.lineage <> 0 OR NEW.op <> 'acquire')
	OR NEW.op = 'reseed' AND (NEW.owner <> 'lease-reseed' OR NEW.end_ms <> NEW.at_ms)
BEGIN SELECT RAISE(ABORT, 'leasehold: a record begins once, with epoch 1'); END`},
	{"leases_epoch", `CREATE TRIGGER leases_epoch BEFORE UPDATE ON leases
WHEN NEW.epoch <> OLD.epoch + (NEW.op = 'acquire') AND (NEW.op <> 'reseed' OR NEW.epoch < OLD.epoch)
BEGIN SELECT RAISE(ABORT, 'leasehold: an epoch moves by one, when the lease is granted'); END`},
	// Of a store that has lost records; see stores.Reseeder. Nobody holds the lease then.
	{"leases_reseed", `CREATE TRIGGER leases_reseed BEFORE UPDATE ON leases
WHEN NEW.op = 'reseed' AND (NEW.epoch <= OLD.epoch OR NEW.owner <> 'lease-reseed' OR NEW.end_ms <> NEW.at_ms)
BEGIN SELECT RAISE(ABORT, 'leasehold: a reseed raises the epoch, and leaves a lease that is over'); END`},
	{"leases_lineage", `CREATE TRIGGER leases_lineage BEFORE UPDATE ON leases
WHEN NEW.lineage < OLD.lineage OR NEW.lineage <> OLD.lineage AND NEW.op NOT IN ('lineage', 'reseed')
BEGIN SELECT RAISE(ABORT, 'leasehold: a lineage is marked, and never unmarked'); END`},
	{"leases_owner", `CREATE TRIGGER leases_owner BEFORE UPDATE ON leases
WHEN NEW.key <> OLD.key OR (NEW.owner <> OLD.owner AND NEW.epoch = OLD.epoch)
BEGIN SELECT RAISE(ABORT, 'leasehold: an epoch has one key and one owner'); END`},
	{"leases_floor", `CREATE TRIGGER leases_floor BEFORE UPDATE ON leases
WHEN NEW.floor < OLD.floor
BEGIN SELECT RAISE(ABORT, 'leasehold: a floor never goes down'); END`},
	{"leases_seq", `CREATE TRIGGER leases_seq BEFORE UPDATE ON leases
WHEN NEW.seq <> OLD.seq + 1 OR NEW.at_ms < OLD.at_ms
BEGIN SELECT RAISE(ABORT, 'leasehold: every change of a record is a new entry of its trail'); END`},
	{"leases_delete", `CREATE TRIGGER leases_delete BEFORE DELETE ON leases
BEGIN SELECT RAISE(ABORT, 'leasehold: a record is never deleted'); END`},

	{"leases_inserted", `CREATE TRIGGER leases_inserted AFTER INSERT ON leases BEGIN
	INSERT INTO trail SELECT key, seq, op, owner, epoch, ttl_ms, end_ms, floor, at_ms, lineage FROM leases WHERE key = NEW.key;
	UPDATE store SET newest_ms = NEW.at_ms WHERE newest_ms < NEW.at_ms;
END`},
	{"leases_updated", `CREATE TRIGGER leases_updated AFTER UPDATE ON leases BEGIN
	INSERT INTO trail SELECT key, seq, op, owner, epoch, ttl_ms, end_ms, floor, at_ms, lineage FROM leases WHERE key = NEW.key;
	UPDATE store SET newest_ms = NEW.at_ms WHERE newest_ms < NEW.at_ms;
END`},

	{"trail_insert", `CREATE TRIGGER trail_insert BEFORE INSERT ON trail
WHEN EXISTS (SELECT 1 FROM trail WHERE key = NEW.key AND seq = NEW.seq)
	OR NOT EXISTS (SELECT 1 FROM leases WHERE key = NEW.key AND seq = NEW.seq AND op = NEW.op AND owner = NEW.owner
		AND epoch = NEW.epoch AND ttl_ms = NEW.ttl_ms AND end_ms = NEW.end_ms AND floor = NEW.floor AND at_ms = NEW.at_ms AND lineage = NEW.lineage)
BEGIN SELECT RAISE(ABORT, 'leasehold: an entry of the trail is the record as it was written'); END`},
	{"trail_update", `CREATE TRIGGER trail_update BEFORE UPDATE ON trail
BEGIN SELECT RAISE(ABORT, 'leasehold: the trail is append-only'); END`},
	// Renewals, and nothing else, may be trimmed, and only in a file that was told to.
	{"trail_delete", `CREATE TRIGGER trail_delete BEFORE DELETE ON trail
WHEN OLD.op <> 'renew' OR (SELECT keep_renewals FROM store) = 0
	OR OLD.seq > (SELECT seq FROM leases WHERE key = OLD.key) - (SELECT keep_renewals FROM store)
BEGIN SELECT RAISE(ABORT, 'leasehold: the trail is append-only'); END`},
}

// prepare makes an empty file a lease store, or checks that the file is one. It runs inside a write
// transaction, so that of several processes that open a new file at once one makes it.
func prepare(ctx context.Context, conn *sql.Conn, path string, keepRenewals int) error {
	have := map[string]string{}
	// sqlite_stat* (ANALYZE) is harmless; everything else in the file must be ours.
	rows, err := conn.QueryContext(ctx, `SELECT name, coalesce(sql, '') FROM sqlite_schema WHERE name NOT LIKE 'sqlite\_%' ESCAPE '\'`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			return err
		}
		have[name] = text
	}
	if err := rows.Err(); err != nil {
		return err
	}
	var id, version int
	if err := conn.QueryRowContext(ctx, `PRAGMA application_id`).Scan(&id); err != nil {
		return err
	}
	if err := conn.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&version); err != nil {
		return err
	}
	if len(have) == 0 && id == 0 && version == 0 {
		return create(ctx, conn, keepRenewals)
	}
	if id != applicationID {
		return refuse(path, "the file is a SQLite database, but not a lease store")
	}
	if version != schemaVersion {
		return refuse(path, fmt.Sprintf("the lease store has version %d, this program knows version %d", version, schemaVersion))
	}
	for _, o := range schema {
		if have[o.name] != o.sql {
			return refuse(path, fmt.Sprintf("%q is missing or changed: records could be lost or granted twice", o.name))
		}
		delete(have, o.name)
	}
	for name := range have {
		return refuse(path, fmt.Sprintf("%q does not belong into a lease store", name))
	}
	var stores int
	if err := conn.QueryRowContext(ctx, `SELECT count(*) FROM store`).Scan(&stores); err != nil {
		return err
	}
	if stores != 1 {
		return refuse(path, "the row of the store's clock is missing")
	}
	if keepRenewals > 0 {
		_, err = conn.ExecContext(ctx, `UPDATE store SET keep_renewals = ? WHERE keep_renewals <> ?`, keepRenewals, keepRenewals)
	}
	return err
}

func create(ctx context.Context, conn *sql.Conn, keepRenewals int) error {
	for _, o := range schema {
		if _, err := conn.ExecContext(ctx, o.sql); err != nil {
			return fmt.Errorf("create %s: %w", o.name, err)
		}
	}
	if _, err := conn.ExecContext(ctx, `INSERT INTO store VALUES (1, 0, '', 0, 0, '', ?)`, keepRenewals); err != nil {
		return err
	}
	_, err := conn.ExecContext(ctx, fmt.Sprintf(`PRAGMA application_id = %d; PRAGMA user_version = %d`, applicationID, schemaVersion))
	return err
}

func refuse(path, why string) error {
	return &messages.Error{Code: messages.CodeCorrupt, Object: path, Message: why}
}
