package engines

import (
	"net/url"
	"os"
	"path/filepath"
	"testing"

	driver "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// A password reaches the client as it is, whatever it is made of, from the URL, a file or the environment.
func TestConfigs_CarryPasswords(t *testing.T) {
	for _, password := range []string{"plain", `p@ss:w/o?r#d&%41 "x'`, "xxxxx", "naïve", "a=b&c", "(tcp)/x@y"} {
		for _, way := range []string{"URL", "file", "environment"} {
			t.Run(way+" "+password, func(t *testing.T) {
				t.Setenv("MYSQL_PWD", "")
				t.Setenv("PGPASSWORD", "")
				user, params := url.UserPassword("u", password).String(), ""
				switch way {
				case "file":
					path := filepath.Join(t.TempDir(), "password")
					require.NoError(t, os.WriteFile(path, []byte(password+"\r\n"), 0o600))
					user, params = "u", "password_file="+url.QueryEscape(path)
				case "environment":
					t.Setenv("MYSQL_PWD", password)
					t.Setenv("PGPASSWORD", password)
					user = "u"
				}

				pg, err := postgresConfig("//" + user + "@db-1:5433,db-2/leases?" + params)
				require.NoError(t, err)
				pgConn, err := pgx.ParseConfig(pg.DSN)
				require.NoError(t, err)
				require.Equal(t, []any{"u", password, "db-1", uint16(5433), "leases"},
					[]any{pgConn.User, pgConn.Password, pgConn.Host, pgConn.Port, pgConn.Database})
				require.NotContains(t, pgConn.RuntimeParams, "password_file")

				my, err := mysqlConfig("//" + user + "@db/leases?tls=true&" + params)
				require.NoError(t, err)
				myConn, err := driver.ParseDSN(my.DSN)
				require.NoError(t, err)
				require.Equal(t, []any{"u", password, "db:3306", "leases", "true"},
					[]any{myConn.User, myConn.Passwd, myConn.Addr, myConn.DBName, myConn.TLSConfig})

				if way == "environment" {
					return
				}
				nats, err := natsConfig("//"+user+"@a,b:4333?sync=always&"+params, leasesKind)
				require.NoError(t, err)
				require.Equal(t, "nats://a,nats://b:4333", nats.URL)
				var options natsgo.Options
				for _, apply := range nats.Options {
					require.NoError(t, apply(&options))
				}
				require.Equal(t, []string{"u", password}, []string{options.User, options.Password})
			})
		}
	}
}
