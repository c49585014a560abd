package postgres

import (
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/internal/sqllease"
)

// settings is what each new connection is asked, and set to, in one statement. A statement that outlives
// its caller is bounded: it may wait for a lock when nobody waits for it.
func settings(timeout time.Duration) string {
	return fmt.Sprintf(`SELECT 'fsync', current_setting('fsync'),
		'full_page_writes', current_setting('full_page_writes'),
		'synchronous_commit', current_setting('synchronous_commit'),
		'synchronous_standby_names', current_setting('synchronous_standby_names'),
		'in_recovery', pg_is_in_recovery()::text,
		'default_transaction_read_only', current_setting('default_transaction_read_only'),
		'', set_config('default_transaction_isolation', 'read committed', false),
		'', set_config('statement_timeout', '%d', false)`, max(2*timeout, 10*time.Second).Milliseconds())
}

func judge(v map[string]string) (name, risk string) {
	switch {
	case v["in_recovery"] != "false":
		return "in_recovery", "a standby answers with old records; use target_session_attrs=read-write"
	case v["default_transaction_read_only"] != "off":
		return "default_transaction_read_only", "nothing can be granted"
	case v["fsync"] != "on":
		return "fsync", "a power cut takes granted leases back"
	case v["full_page_writes"] != "on":
		return "full_page_writes", "a power cut can damage the records"
	case v["synchronous_commit"] == "off":
		return "synchronous_commit", "a crash takes granted leases back"
	case v["synchronous_commit"] == "local" && v["synchronous_standby_names"] != "":
		return "synchronous_commit", "a failover to the synchronous standby takes granted leases back"
	}
	return "", ""
}

// fault reads SQLSTATE classes; see appendix A of PostgreSQL's manual.
func fault(err error) sqllease.Fault {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return sqllease.Fault{}
	}
	switch {
	case e.Code == "40001" || e.Code == "40P01": // serialization_failure, deadlock_detected: rolled back
		return sqllease.Fault{Retry: true, Message: "the lease store is too busy"}
	case e.Code[:2] == "23":
		return sqllease.Fault{Code: messages.CodeInternal, Message: "the lease store refused a change that breaks its rules"}
	case e.Code == "42501" || e.Code[:2] == "28":
		return sqllease.Fault{Code: messages.CodeUnauthorized, Message: "the lease store refused the role"}
	case e.Code[:2] == "42" || e.Code[:2] == "3D" || e.Code[:2] == "3F":
		return sqllease.Fault{Code: messages.CodeNotFound, Message: "the database, or the schema of the lease store, is not there"}
	case e.Code[:2] == "53" && e.Code != "53300" || e.Code[:2] == "58":
		return sqllease.Fault{Code: messages.CodeStorage, Message: "the lease store is out of space, or its disk failed"}
	}
	return sqllease.Fault{}
}
