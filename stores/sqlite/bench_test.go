package sqlite_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/leasehold/leasehold/stores"
	"github.com/leasehold/leasehold/stores/sqlite"
	"github.com/leasehold/leasehold/stores/storetest"
)

// What a renewal costs, alone and in a batch, with and without fsync. A batch is one transaction.
func BenchmarkRenew(b *testing.B) {
	for _, bb := range []struct {
		name   string
		noSync bool
		batch  int
	}{{"sync/1", false, 1}, {"sync/500", false, 500}, {"nosync/1", true, 1}, {"nosync/500", true, 500}} {
		b.Run(bb.name, func(b *testing.B) {
			ctx, cancel := context.WithCancel(b.Context()) // as callers have it
			defer cancel()
			store, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(b.TempDir(), "leases.db"), NoSync: bb.noSync, KeepRenewals: 10})
			if err != nil {
				b.Fatal(err)
			}
			defer store.Close()
			batch := make([]stores.Renewal, bb.batch)
			for i := range batch {
				batch[i] = stores.Renewal{Key: storetest.NewKey(), Owner: "a", Epoch: 1, TTL: time.Hour}
				if _, err := store.Acquire(ctx, batch[i].Key, "a", time.Hour); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				results, err := store.RenewMany(ctx, batch)
				if err != nil || results[0].Err != nil {
					b.Fatal(err, results)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*bb.batch), "µs/lease")
		})
	}
}
