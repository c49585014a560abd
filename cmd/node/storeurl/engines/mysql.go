package engines

import (
	"context"
	"net"
	"os"
	"strings"

	driver "github.com/go-sql-driver/mysql"

	"github.com/leasehold/leasehold/cmd/node/storeurl"
	"github.com/leasehold/leasehold/stores/mysql"
)

var mysqlScheme = storeurl.Scheme[storeurl.LeaseStore]{
	Migrates: true,
	Check: func(rest string) error {
		_, err := mysqlConfig(rest)
		return err
	},
	Open: func(ctx context.Context, rest string, o storeurl.Options) (storeurl.LeaseStore, error) {
		cfg, err := mysqlConfig(rest)
		if err != nil {
			return nil, err
		}
		if cfg.Migrate = o.Migrate; !o.Migrate {
			cfg.KeepRenewals = 0 // it is the schema owner's to say
		}
		store, err := mysql.Open(ctx, cfg)
		if err != nil {
			return nil, err
		}
		return store, nil
	},
}

// passwordVariable is where the clients of MariaDB look for a password, too.
const passwordVariable = "MYSQL_PWD"

func mysqlConfig(rest string) (mysql.Config, error) {
	a := parse("mysql", rest)
	cfg := mysql.Config{MaxConns: a.number("max_conns", 1), KeepRenewals: a.number("keep_renewals", mysql.KeepAllRenewals)}
	dsn := driver.NewConfig()
	dsn.TLSConfig = a.oneOf("tls", "", "true", "false", "preferred", "skip-verify")
	dsn.User, dsn.Passwd = a.password()
	if dsn.Passwd == "" {
		dsn.Passwd = os.Getenv(passwordVariable)
	}
	dsn.DBName = strings.TrimPrefix(a.Path, "/")
	socket := a.take("socket")
	switch {
	case dsn.User == "" || strings.Contains(dsn.User, ":"):
		a.fail("the URL of a mysql store names no user: mysql://USER@HOST/DATABASE")
	case dsn.DBName == "" || strings.Contains(dsn.DBName, "/"):
		a.fail("the URL of a mysql store names no database: mysql://USER@HOST/DATABASE")
	case (a.Hostname() == "") == (socket == ""):
		a.fail("the URL of a mysql store names a host, or the parameter socket names a path")
	case strings.Contains(a.Host, ","):
		a.fail("a mysql store is on one host")
	case socket != "":
		dsn.Net, dsn.Addr = "unix", socket
	default:
		port := a.Port()
		if port == "" {
			port = "3306"
		}
		dsn.Net, dsn.Addr = "tcp", net.JoinHostPort(a.Hostname(), port)
	}
	if err := a.done(); err != nil {
		return cfg, err
	}
	cfg.DSN = dsn.FormatDSN()
	return cfg, nil
}
