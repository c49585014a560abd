package sqltest

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
	"github.com/leasehold/leasehold/stores/storetest"
	"github.com/leasehold/leasehold/stores/storetest/servers"
)

// Common is the server that the tests of a binding share, as long as they do it no harm. It is started by the
// first that needs it.
type Common struct {
	// Launch starts the server.
	Launch func(ctx context.Context, settings ...string) (*servers.Server, error)

	once   sync.Once
	server *servers.Server
	err    error
	dbs    int
}

// Main is a binding's TestMain: it makes the test binary a contender of a race if it was started as one, looks for
// leaked goroutines, and stops the server after the tests. open is that of the binding's Subject.
func (c *Common) Main(m *testing.M, open func(ctx context.Context, dsn string, o Options) (Store, error)) {
	storetest.Contend(func(ctx context.Context, dsn string) (stores.LeaseStore, func() error, error) {
		s, err := open(ctx, dsn, Options{MaxConns: 1})
		if err != nil {
			return nil, nil, err
		}
		return s, s.Close, nil
	})
	goleak.VerifyTestMain(withServer{m, c})
}

// withServer stops the server after the tests.
type withServer struct {
	*testing.M
	common *Common
}

func (w withServer) Run() int {
	// An example cannot skip itself.
	if _, err := w.common.Start(context.Background()); errors.Is(err, servers.ErrNotInstalled) && os.Getenv("CI") == "" {
		flag.Parse()
		_ = flag.Set("test.skip", "^Example")
	}
	code := w.M.Run()
	if w.common.server != nil {
		if err := w.common.server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

// Start returns the server; the context is not that of its life, which ends with the tests.
func (c *Common) Start(context.Context) (*servers.Server, error) {
	c.once.Do(func() { c.server, c.err = c.Launch(context.Background()) })
	return c.server, c.err
}

// Database returns the server, and the name of a new, empty database on it. Not for tests in parallel.
func (c *Common) Database(t testing.TB) (*servers.Server, string) {
	t.Helper()
	s := servers.ForTest(t, c.Start)
	c.dbs++
	name := fmt.Sprintf("db%d", c.dbs)
	if err := s.Exec(t.Context(), "", `CREATE DATABASE `+name); err != nil {
		t.Fatal(err)
	}
	return s, name
}
