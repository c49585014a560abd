package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

// PostgreSQL starts a PostgreSQL server with the given settings ("fsync=off", …) beside its own. Its
// administrator is "postgres". It refuses to run as root, so root runs it as the user postgres.
func PostgreSQL(ctx context.Context, settings ...string) (*Server, error) {
	initdb, err := find("initdb", "/usr/lib/postgresql/*/bin")
	if err != nil {
		return nil, err
	}
	s, err := newServer("postgres", "pgx", func(addr, user, database string) string {
		if user == "" {
			user = "postgres"
		}
		if database == "" {
			database = "postgres"
		}
		return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable&connect_timeout=10", user, addr, database)
	})
	if err != nil {
		return nil, err
	}
	if os.Geteuid() == 0 {
		if s.as, err = credential("postgres"); err == nil {
			err = os.Chown(s.dir, int(s.as.Uid), int(s.as.Gid))
		}
		if err != nil {
			return nil, errors.Join(err, os.RemoveAll(s.dir))
		}
	}
	data := filepath.Join(s.dir, "data")
	create := exec.CommandContext(ctx, initdb, "-D", data, "-A", "trust", "-U", "postgres", "-N", "--no-locale", "-E", "UTF8")
	s.argv = []string{filepath.Join(filepath.Dir(initdb), "postgres"), "-D", data, "-k", "", "-h", "127.0.0.1", "-p", strconv.Itoa(s.port),
		"-c", "shared_buffers=32MB", "-c", "max_connections=200"}
	for _, setting := range settings {
		s.argv = append(s.argv, "-c", setting)
	}
	return s.create(ctx, create)
}

// credential is that of another user of this machine.
func credential(name string) (*syscall.Credential, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotInstalled, err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// find returns the path of a program, the newest one if a pattern has several versions.
func find(program string, folders ...string) (string, error) {
	if path, err := exec.LookPath(program); err == nil {
		return filepath.EvalSymlinks(path)
	}
	for _, folder := range folders {
		paths, _ := filepath.Glob(filepath.Join(folder, program))
		slices.SortFunc(paths, func(a, b string) int { return version(b) - version(a) })
		if len(paths) > 0 {
			return paths[0], nil
		}
	}
	return "", fmt.Errorf("%w: no %s on this machine", ErrNotInstalled, program)
}

// version is the number in a path such as /usr/lib/postgresql/15/bin/initdb; 0: none.
func version(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	return n
}

func newServer(name, driver string, dsn func(addr, user, database string) string) (*Server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	// Not below a test's own folder: another user must be able to reach it.
	dir, err := os.MkdirTemp("", "leasehold-"+name+"-")
	if err != nil {
		return nil, err
	}
	return &Server{name: name, driver: driver, dsn: dsn, dir: dir, port: port}, nil
}

// create runs the command that makes the data folder, and starts the server.
func (s *Server) create(ctx context.Context, cmd *exec.Cmd) (*Server, error) {
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as}
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", filepath.Base(cmd.Path), err, out)
	} else {
		err = s.Start(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}
