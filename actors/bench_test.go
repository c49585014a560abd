package actors_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/mattn/go-sqlite3" // the baseline: the raw driver
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

func benchNode(b *testing.B, change ...func(*actors.Config)) *actors.Node {
	b.Helper()
	cfg := actors.Config{StateRoot: b.TempDir(), NodeName: "bench", Log: slog.New(slog.NewTextHandler(io.Discard, nil)), IdleAfter: -1, SnapshotEvery: time.Hour}
	for _, c := range change {
		c(&cfg)
	}
	n, err := actors.Start(context.Background(), cfg)
	require.NoError(b, err)
	b.Cleanup(func() { _ = n.Abort() })
	return n
}

func benchTenant(b *testing.B, n *actors.Node, subject string) *actors.Tenant {
	b.Helper()
	id, err := messages.DeriveTenant([]byte(strings.Repeat("k", 32)), "https://idp.example", subject)
	require.NoError(b, err)
	t, err := n.Tenant(context.Background(), "acme", id)
	require.NoError(b, err)
	require.NoError(b, t.Open(context.Background()))
	return t
}

const benchPayload = `{"from":"BSL","to":"ZRH","km":87}`

// rawAppends is the baseline: the same row, one per transaction, prepared, on the raw driver, with
// the same journal and sync modes.
func rawAppends(b *testing.B, n int) (perSecond float64) {
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(b.TempDir(), "raw.db")+"?_journal_mode=WAL&_synchronous=NORMAL")
	require.NoError(b, err)
	defer db.Close()
	db.SetMaxOpenConns(1)
	_, err = db.Exec(`CREATE TABLE events (seq INTEGER PRIMARY KEY AUTOINCREMENT, tenant_id TEXT NOT NULL, ts TEXT NOT NULL, actor TEXT, kind TEXT NOT NULL,
		subject_id TEXT, payload TEXT NOT NULL, idem_key TEXT, run_id TEXT); CREATE UNIQUE INDEX idem ON events (tenant_id, idem_key) WHERE idem_key IS NOT NULL`)
	require.NoError(b, err)
	insert, err := db.Prepare("INSERT INTO events (tenant_id, ts, kind, payload) VALUES (?, ?, ?, ?)")
	require.NoError(b, err)
	begun := time.Now()
	for range n {
		_, err := insert.Exec("t-3129611eac9be1d5994a2b216b06ed27", "2026-01-01T00:00:00Z", "bench", benchPayload)
		require.NoError(b, err)
	}
	return float64(n) / time.Since(begun).Seconds()
}

// BenchmarkAppend prints appends per second through a node, and their ratio to the raw driver in the
// same run.
func BenchmarkAppend(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			t := benchTenant(b, benchNode(b), "append")
			raw := rawAppends(b, max(b.N, 2000))
			var next atomic.Int64
			done := make(chan error, callers)
			b.ResetTimer()
			for range callers {
				go func() {
					var err error
					for next.Add(1) <= int64(b.N) && err == nil {
						_, err = t.Append(context.Background(), messages.Event{Kind: "bench", Payload: json.RawMessage(benchPayload)})
					}
					done <- err
				}()
			}
			for range callers {
				require.NoError(b, <-done)
			}
			b.StopTimer()
			ours := float64(b.N) / b.Elapsed().Seconds()
			b.ReportMetric(ours, "appends/s")
			b.ReportMetric(ours/raw, "of-raw-driver")
		})
	}
}

// BenchmarkLifecycle prints the times of snapshot, handoff and open by the size of the ledger.
func BenchmarkLifecycle(b *testing.B) {
	for _, mb := range []int{0, 1, 16, 64} {
		b.Run(fmt.Sprintf("ledger=%dMB", mb), func(b *testing.B) {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
			defer cancel()
			n := benchNode(b)
			t := benchTenant(b, n, "lifecycle")
			require.NoError(b, t.Run(ctx, func(tx *ledgeractor.Tx) error {
				if _, err := tx.ExecContext(ctx, "CREATE TABLE filler (x BLOB)"); err != nil {
					return err
				}
				for range mb * 16 {
					if _, err := tx.ExecContext(ctx, "INSERT INTO filler VALUES (randomblob(65536))"); err != nil {
						return err
					}
				}
				return nil
			}))
			var snapshot, handoff, open time.Duration
			b.ResetTimer()
			for range b.N {
				begun := time.Now()
				m, err := t.Snapshot(ctx)
				require.NoError(b, err)
				snapshot += time.Since(begun)
				require.GreaterOrEqual(b, m.Size, int64(mb)<<20)
				_, err = t.Append(ctx, messages.Event{Kind: "dirty"})
				require.NoError(b, err)
				begun = time.Now()
				require.NoError(b, t.Handoff(ctx))
				handoff += time.Since(begun)
				begun = time.Now()
				_, err = t.Status(ctx) // opens it again
				require.NoError(b, err)
				open += time.Since(begun)
			}
			b.ReportMetric(float64(snapshot.Microseconds())/float64(b.N)/1000, "snapshot-ms")
			b.ReportMetric(float64(handoff.Microseconds())/float64(b.N)/1000, "handoff-ms")
			b.ReportMetric(float64(open.Microseconds())/float64(b.N)/1000, "open-ms")
		})
	}
}

// BenchmarkOpenIdle prints the time to open a new tenant and the memory of one that is open and idle.
func BenchmarkOpenIdle(b *testing.B) {
	n := benchNode(b)
	before := heap()
	rssBefore := rss()
	b.ResetTimer()
	for i := range b.N {
		benchTenant(b, n, fmt.Sprint("idle-", i))
	}
	b.StopTimer()
	b.ReportMetric(float64(heap()-before)/float64(b.N), "heap-B/tenant")
	b.ReportMetric(float64(rss()-rssBefore)/float64(b.N), "rss-B/tenant")
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// rss is the resident memory of this process in bytes: SQLite's part of an open tenant is outside of
// Go's heap.
func rss() int64 {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	pages, _ := strconv.ParseInt(strings.Fields(string(data))[1], 10, 64)
	return pages * int64(os.Getpagesize())
}
