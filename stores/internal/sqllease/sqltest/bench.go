package sqltest

import (
	"database/sql"
	"testing"
	"time"

	"github.com/leasehold/leasehold/stores"
)

// Bench measures what a renewal costs, alone and in a batch of 500, beside a bare UPDATE of one row through the
// same driver on the same server. x_update is the ratio, for each lease: below 1 in a batch, because the
// flush of the log is shared.
func (s Subject) Bench(b *testing.B) {
	server, name := s.Database(b)
	store := s.open(b, server.DSN("", name), Options{Migrate: true})
	if err := server.Exec(b.Context(), "", `CREATE DATABASE bare_`+name); err != nil {
		b.Fatal(err)
	}
	bare := "bare_" + name
	if err := server.Exec(b.Context(), bare, `CREATE TABLE bare (k INT PRIMARY KEY, v BIGINT)`, `INSERT INTO bare VALUES (1, 1)`); err != nil {
		b.Fatal(err)
	}
	db, err := sql.Open(s.Driver, server.DSN("", bare))
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	renewals := granted(b, store, 500)
	// Alternately, so that a busy machine is busy for both.
	for _, bb := range []struct {
		name  string
		batch []stores.Renewal
	}{{"single", renewals[:1]}, {"batch", renewals}} {
		b.Run(bb.name, func(b *testing.B) {
			var plain, lease time.Duration
			for b.Loop() {
				start := time.Now()
				if _, err := db.ExecContext(b.Context(), `UPDATE bare SET v = v + 1 WHERE k = 1`); err != nil {
					b.Fatal(err)
				}
				middle := time.Now()
				if len(bb.batch) == 1 {
					_, err = store.Renew(b.Context(), bb.batch[0].Key, "a", 1, time.Hour)
				} else {
					var results []stores.RenewalResult
					results, err = store.RenewMany(b.Context(), bb.batch)
					for _, r := range results {
						err = firstError(err, r.Err)
					}
				}
				if err != nil {
					b.Fatal(err)
				}
				plain += middle.Sub(start)
				lease += time.Since(middle)
			}
			each := float64(lease) / float64(len(bb.batch))
			b.ReportMetric(each/float64(plain), "x_update")
			b.ReportMetric(each/float64(b.N)/1000, "µs/lease")
		})
	}
}
