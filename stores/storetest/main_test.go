package storetest_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/stores/dir"
	"github.com/leasehold/leasehold/stores/sqlite"
	"github.com/leasehold/leasehold/stores/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// leases and objects are wrapped real stores. root lies outside a bubble, because t.TempDir does.
func leases(t *testing.T, root string) *storetest.FaultyLeases {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(root, "leases.db"), NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return storetest.NewFaultyLeases(s)
}

func objects(t *testing.T, root string) *storetest.FaultyDurable {
	t.Helper()
	s, err := dir.Open(t.Context(), dir.Config{Root: root, NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return storetest.NewFaultyDurable(s)
}

const ttl = time.Minute
