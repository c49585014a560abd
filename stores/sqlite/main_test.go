package sqlite_test

import (
	"context"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/stores"
	"github.com/leasehold/leasehold/stores/sqlite"
	"github.com/leasehold/leasehold/stores/storetest"
)

func TestMain(m *testing.M) {
	child()
	storetest.Contend(func(ctx context.Context, target string) (stores.LeaseStore, func() error, error) {
		s, err := sqlite.Open(ctx, sqlite.Config{Path: target})
		if err != nil {
			return nil, nil, err
		}
		if os.Getenv(breakEnv) != "" {
			return storetest.NoCompareAndSet(s), s.Close, nil
		}
		return s, s.Close, nil
	})
	goleak.VerifyTestMain(m)
}
