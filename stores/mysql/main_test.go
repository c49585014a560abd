package mysql_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/stores"
	"github.com/leasehold/leasehold/stores/mysql"
	"github.com/leasehold/leasehold/stores/storetest"
	"github.com/leasehold/leasehold/stores/storetest/servers"
)

func TestMain(m *testing.M) {
	storetest.Contend(func(ctx context.Context, target string) (stores.LeaseStore, func() error, error) {
		s, err := mysql.Open(ctx, mysql.Config{DSN: target, MaxConns: 1})
		if err != nil {
			return nil, nil, err
		}
		return s, s.Close, nil
	})
	goleak.VerifyTestMain(withServer{m})
}

// withServer stops the common server after the tests.
type withServer struct{ *testing.M }

func (w withServer) Run() int {
	// An example cannot skip itself.
	if _, err := startCommon(context.Background()); errors.Is(err, servers.ErrNotInstalled) && os.Getenv("CI") == "" {
		flag.Parse()
		_ = flag.Set("test.skip", "^Example")
	}
	code := w.M.Run()
	if common.server != nil {
		if err := common.server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

// common is the server of all tests that do it no harm.
var common struct {
	once   sync.Once
	server *servers.Server
	err    error
	dbs    int
}

func startCommon(context.Context) (*servers.Server, error) {
	common.once.Do(func() { common.server, common.err = servers.MariaDB(context.Background()) })
	return common.server, common.err
}

// database returns the name of a new, empty database on the common server.
func database(t testing.TB) (*servers.Server, string) {
	t.Helper()
	s := servers.ForTest(t, startCommon)
	common.dbs++
	name := fmt.Sprintf("db%d", common.dbs)
	if err := s.Exec(t.Context(), "", `CREATE DATABASE `+name); err != nil {
		t.Fatal(err)
	}
	return s, name
}
