package mysql

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
	"github.com/leasehold/leasehold/stores/internal/sqllease"
)

// KeepAllRenewals is a Config.KeepRenewals that drops nothing.
const KeepAllRenewals = sqllease.KeepAllRenewals

// Config says where a lease store is and how it behaves. Only DSN is needed.
type Config struct {
	// DSN names the server, the account and the database, as github.com/go-sql-driver/mysql has it:
	// user:password@tcp(host:3306)/database?tls=true. The database holds the lease store and nothing else.
	DSN string
	// Migrate creates the tables and procedures in the database if there are none, as the account of the
	// DSN, with whose rights they run from then on. Without it a missing schema is an error, and the
	// account needs no more than Grants.
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

// Store is a lease store on a MariaDB server. It is safe for concurrent use, and for use together with
// other Stores on the same database, in any number of processes.
type Store struct{ *sqllease.Store }

var (
	_ stores.LeaseStore   = (*Store)(nil)
	_ stores.BatchRenewer = (*Store)(nil)
	_ stores.LeaseLister  = (*Store)(nil)
)

// Open connects to the server, checks its settings and the schema, and creates the schema if Config says
// so. The errors are CodeInvalidArgument for a Config that can never work, and for a server or a session with
// a setting that puts granted leases at risk (Object names it); CodeNotFound for a database or a schema that
// is not there; CodeCorrupt for one that is not that of this program (Object names the difference);
// CodeUnauthorized if the server refuses the account, or the account lacks a right; CodeUnavailable if there
// is no answer.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	cfg, driver, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	connector, err := cfg.connector(driver)
	if err != nil {
		return nil, err
	}
	db := sqllease.OpenDB(connector, cfg.MaxConns)
	if err := prepare(ctx, db, driver, cfg); err != nil {
		return nil, errors.Join(dialect.OpenError(ctx, err), db.Close())
	}
	d := dialect
	d.Name = "mysql://" + driver.Addr + "/" + driver.DBName
	return &Store{sqllease.New(db, d, cfg.Timeout)}, nil
}

// complete checks the Config and fills in its defaults.
func (c Config) complete() (Config, *mysql.Config, error) {
	invalid := func(why string, err error) error {
		return &messages.Error{Code: messages.CodeInvalidArgument, Message: why, Err: err}
	}
	if c.DSN == "" {
		return c, nil, invalid("a lease store needs a DSN", nil)
	}
	limits, err := sqllease.Limits{Migrate: c.Migrate, KeepRenewals: c.KeepRenewals, MaxConns: c.MaxConns, Timeout: c.Timeout}.Complete()
	if err != nil {
		return c, nil, err
	}
	c.MaxConns, c.Timeout = limits.MaxConns, limits.Timeout
	driver, err := mysql.ParseDSN(c.DSN) // its errors do not hold the password
	if err != nil {
		return c, nil, invalid("the DSN cannot be read", err)
	}
	if driver.DBName == "" {
		return c, nil, invalid("the DSN names no database", nil)
	}
	driver.InterpolateParams = true // one round trip, not one more to prepare
	driver.MultiStatements = false
	driver.RejectReadOnly = true // a server that has become a replica: the pool looks for the new one
	driver.Logger = &mysql.NopLogger{}
	return c, driver, nil
}

// connector opens connections whose statements are bounded: one may wait for a lock when nobody waits for it.
func (c Config) connector(driver *mysql.Config) (*sqllease.Connector, error) {
	driver = driver.Clone()
	if driver.Params == nil {
		driver.Params = map[string]string{}
	}
	bound := max(2*c.Timeout, 10*time.Second)
	driver.Params["innodb_lock_wait_timeout"] = fmt.Sprint(int(bound / time.Second))
	driver.Params["max_statement_time"] = fmt.Sprint(int(bound / time.Second))
	inner, err := mysql.NewConnector(driver)
	if err != nil {
		return nil, &messages.Error{Code: messages.CodeInvalidArgument, Message: "the DSN cannot be used", Err: err}
	}
	return &sqllease.Connector{Connector: inner, Settings: settings, Judge: judge, AllowUnsafe: c.AllowUnsafe, Timeout: c.Timeout}, nil
}

const columns = "owner, epoch, ttl_ms, end_ms, floor, lineage"

// clock is that of the procedures in schema.sql, whatever the session's time zone is.
const clock = "FLOOR(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) / 1000)"

var dialect = sqllease.Dialect{
	Acquire:   "CALL lease_acquire(?, ?, ?)",
	Change:    "CALL lease_change(?, ?, ?, ?, ?)",
	RenewMany: "CALL lease_renew_many(?)",
	Read:      "SELECT " + columns + " FROM leases WHERE `key` = ?",
	History:   "SELECT seq, op, at_ms, " + columns + " FROM trail WHERE `key` = ? ORDER BY seq",
	Leases:    "SELECT `key`, " + columns + " FROM leases WHERE `key` > ? ORDER BY `key` LIMIT ?",
	Forgotten: "SELECT `key`, " + columns + " FROM leases WHERE floor > 0 AND `key` > ? ORDER BY `key` LIMIT ?",
	Lock:      "SELECT GREATEST(" + clock + ", at_ms), " + columns + " FROM leases WHERE `key` = ? FOR UPDATE",
	Clock:     "SELECT " + clock,
	Insert:    "INSERT INTO leases (owner, epoch, ttl_ms, end_ms, floor, at_ms, lineage, `key`, seq, op) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1, 'reseed')",
	Update:    "UPDATE leases SET owner = ?, epoch = ?, ttl_ms = ?, end_ms = ?, floor = ?, at_ms = ?, lineage = ?, seq = seq + 1, op = 'reseed' WHERE `key` = ?",
	Fault:     fault,

	Deployment:    "SELECT deployment FROM store",
	SetDeployment: "CALL deployment_set(?)",
}

// Grants returns the statements that give an account ('user'@'host') what a node needs, and nothing else: it
// can call the procedures of the protocol, and look. It cannot write, delete or truncate a table. They are
// run by an administrator, once for each account.
func Grants(database, user, host string) []string {
	account := quote(user) + "@" + quote(host)
	name := "`" + strings.ReplaceAll(database, "`", "``") + "`."
	var statements []string
	for _, table := range []string{"store", "leases", "trail"} {
		statements = append(statements, "GRANT SELECT ON "+name+table+" TO "+account)
	}
	for _, procedure := range []string{"lease_acquire", "lease_change", "lease_renew_many", "deployment_set", "store_objects"} {
		statements = append(statements, "GRANT EXECUTE ON PROCEDURE "+name+procedure+" TO "+account)
	}
	return statements
}

// quote is a string literal, whatever the sql_mode says about backslashes: it has none.
func quote(s string) string {
	return "'" + strings.NewReplacer("'", "''", `\`, "").Replace(s) + "'"
}
