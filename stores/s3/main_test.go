package s3_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/stores"
	"github.com/leasehold/leasehold/stores/s3"
	"github.com/leasehold/leasehold/stores/s3/s3test"
	"github.com/leasehold/leasehold/stores/storetest"
)

func TestMain(m *testing.M) {
	s3test.Main()
	storetest.Contend(func(ctx context.Context, target string) (stores.LeaseStore, func() error, error) {
		var r raceTarget
		if err := json.Unmarshal([]byte(target), &r); err != nil {
			return nil, nil, err
		}
		b, err := s3.Open(ctx, config(r.Endpoint))
		if err != nil {
			return nil, nil, err
		}
		leases, err := b.Leases(ctx, s3.LeaseConfig{AcquireWait: 5 * time.Second})
		if err == nil && r.Break {
			return storetest.NoCompareAndSet(leases), b.Close, nil
		}
		return leases, b.Close, err
	})
	goleak.VerifyTestMain(m)
}

// raceTarget is what the contenders of a race are told.
type raceTarget struct {
	Endpoint string
	Break    bool
}

func config(endpoint string) s3.Config {
	return s3.Config{Bucket: s3test.Bucket, Region: s3test.Region, Endpoint: endpoint, PathStyle: true,
		AccessKeyID: s3test.AccessKey, SecretAccessKey: s3test.SecretKey}
}

func open(t *testing.T, cfg s3.Config) *s3.Bucket {
	t.Helper()
	b, err := s3.Open(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

func openLeases(t *testing.T, cfg s3.Config, lc s3.LeaseConfig) *s3.Leases {
	t.Helper()
	leases, err := open(t, cfg).Leases(t.Context(), lc)
	require.NoError(t, err)
	return leases
}
