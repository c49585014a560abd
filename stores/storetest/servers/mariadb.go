package servers

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/go-sql-driver/mysql"
)

// MariaDB starts a MariaDB server with the given options ("--sync-binlog=0", …) beside its own. Its
// administrator is "root".
func MariaDB(ctx context.Context, options ...string) (*Server, error) {
	install, err := find("mariadb-install-db", "/usr/bin")
	if err != nil {
		return nil, err
	}
	daemon, err := find("mariadbd", "/usr/sbin")
	if err != nil {
		return nil, err
	}
	s, err := newServer("mariadb", "mysql", func(addr, user, database string) string {
		if user == "" {
			user = "root"
		}
		cfg := mysql.NewConfig()
		cfg.Net, cfg.Addr, cfg.User, cfg.DBName = "tcp", addr, user, database
		cfg.Logger = &mysql.NopLogger{}
		return cfg.FormatDSN()
	})
	if err != nil {
		return nil, err
	}
	data := filepath.Join(s.dir, "data")
	// A server that starts deletes the temporary tables in its tmpdir: in a common one, those of other
	// servers that run.
	args := []string{"--no-defaults", "--datadir=" + data, "--tmpdir=" + s.dir}
	if os.Geteuid() == 0 {
		args = append(args, "--user=root")
	}
	create := exec.CommandContext(ctx, install, append(args, "--auth-root-authentication-method=normal", "--skip-test-db")...)
	s.argv = append(append([]string{daemon}, args...), "--socket="+filepath.Join(s.dir, "sock"), "--pid-file="+filepath.Join(s.dir, "pid"),
		"--bind-address=127.0.0.1", "--port="+strconv.Itoa(s.port), "--skip-name-resolve",
		"--innodb-buffer-pool-size=64M", "--innodb-log-file-size=32M")
	s.argv = append(s.argv, options...)
	return s.create(ctx, create)
}
