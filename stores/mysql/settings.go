package mysql

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/internal/sqllease"
)

// settings is what each new connection is asked.
const settings = `SELECT 'version', VERSION(),
	'innodb_flush_log_at_trx_commit', @@GLOBAL.innodb_flush_log_at_trx_commit,
	'innodb_doublewrite', @@GLOBAL.innodb_doublewrite,
	'innodb_flush_method', @@GLOBAL.innodb_flush_method,
	'log_bin', @@GLOBAL.log_bin,
	'sync_binlog', @@GLOBAL.sync_binlog,
	'read_only', @@GLOBAL.read_only,
	'wsrep_on', @@GLOBAL.wsrep_on,
	'sql_mode', @@SESSION.sql_mode,
	'autocommit', @@SESSION.autocommit`

func judge(v map[string]string) (name, risk string) {
	switch {
	case !tested(v["version"]):
		return "version", "the procedures are written for, and tested on, MariaDB 10.11 and newer"
	case v["read_only"] != "0":
		return "read_only", "nothing can be granted, and a replica answers with old records"
	case v["wsrep_on"] != "0":
		return "wsrep_on", "a Galera node answers with old records, and its locks are its own"
	case v["innodb_flush_log_at_trx_commit"] != "1":
		return "innodb_flush_log_at_trx_commit", "a crash takes granted leases back"
	case v["innodb_doublewrite"] != "1":
		return "innodb_doublewrite", "a power cut can damage the records"
	case strings.Contains(v["innodb_flush_method"], "nosync"), v["innodb_flush_method"] == "littlesync":
		return "innodb_flush_method", "a power cut takes granted leases back"
	case v["log_bin"] != "0" && v["sync_binlog"] != "1":
		return "sync_binlog", "with a binary log, a power cut takes back what is not in it"
	case !strings.Contains(v["sql_mode"], "STRICT_TRANS_TABLES") && !strings.Contains(v["sql_mode"], "STRICT_ALL_TABLES"):
		return "sql_mode", "values that do not fit would be changed silently"
	case v["autocommit"] != "1":
		return "autocommit", "a read would see old records"
	}
	return "", ""
}

// tested reports whether a version is that of MariaDB 10.11 or newer, as in "10.11.14-MariaDB-…".
func tested(version string) bool {
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil || !strings.Contains(version, "MariaDB") {
		return false
	}
	return major > 10 || major == 10 && minor >= 11
}

// fault reads error numbers; see "MariaDB Error Codes" in MariaDB's manual.
func fault(err error) sqllease.Fault {
	var e *mysql.MySQLError
	if !errors.As(err, &e) {
		return sqllease.Fault{}
	}
	switch e.Number {
	case 1213, 1020: // a deadlock, a row that changed since it was read: rolled back
		return sqllease.Fault{Retry: true, Message: "the lease store is too busy"}
	case 1644, 1062, 1048, 1264, 1366, 1406, 1451, 1452, 4025:
		return sqllease.Fault{Code: messages.CodeInternal, Message: "the lease store refused a change that breaks its rules"}
	case 1044, 1045, 1142, 1143, 1227, 1370, 1698:
		return sqllease.Fault{Code: messages.CodeUnauthorized, Message: "the lease store refused the account"}
	case 1049, 1146, 1305, 1449:
		return sqllease.Fault{Code: messages.CodeNotFound, Message: "the database, the schema of the lease store, or its owner is not there"}
	case 1021, 1026, 1030, 1114:
		return sqllease.Fault{Code: messages.CodeStorage, Message: "the lease store is out of space, or its disk failed"}
	}
	return sqllease.Fault{}
}
