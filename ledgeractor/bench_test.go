package ledgeractor_test

import (
	"context"
	"database/sql/driver"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mattn/go-sqlite3"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/mailbox"
)

var benchPayload = payload(`{"km": 12.5, "from": "a", "to": "b", "note": "a payload of a usual size"}`)

// rawRate measures the bare driver: one prepared insert per transaction, in the same kind of file
// (WAL, NORMAL), into a table without triggers and constraints. Rows per second.
func rawRate(b *testing.B, rows int) float64 {
	conn, err := (&sqlite3.SQLiteDriver{}).Open("file:" + filepath.Join(b.TempDir(), "raw.db") + "?_journal_mode=WAL&_synchronous=NORMAL")
	require.NoError(b, err)
	defer conn.Close()
	_, err = conn.(driver.ExecerContext).ExecContext(context.Background(), `CREATE TABLE events (seq INTEGER PRIMARY KEY AUTOINCREMENT,
tenant_id TEXT, ts TEXT, actor TEXT, kind TEXT, subject_id TEXT, payload TEXT, idem_key TEXT, run_id TEXT)`, nil)
	require.NoError(b, err)
	stmt, err := conn.Prepare("INSERT INTO events (tenant_id, ts, actor, kind, subject_id, payload, idem_key, run_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?)")
	require.NoError(b, err)
	defer stmt.Close()
	var args []driver.NamedValue
	for i, v := range []driver.Value{string(testKey.Tenant), "2026-01-02T03:04:05.000000Z", nil, "trip.logged", nil, string(benchPayload), nil, nil} {
		args = append(args, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	begin := time.Now()
	for range rows {
		if _, err := stmt.(driver.StmtExecContext).ExecContext(context.Background(), args); err != nil {
			b.Fatal(err)
		}
	}
	return float64(rows) / time.Since(begin).Seconds()
}

// BenchmarkAppend measures appends per second through the actor, and their ratio to the bare driver
// in the same run: above 1 is faster than one transaction per row.
func BenchmarkAppend(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			l := start(b)
			events := []messages.Event{{Kind: "trip.logged", Payload: benchPayload}}
			ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
			defer cancel()
			var left atomic.Int64
			left.Store(int64(b.N))
			var group sync.WaitGroup
			b.ResetTimer()
			for range callers {
				group.Go(func() {
					for left.Add(-1) >= 0 {
						if _, err := l.Append(ctx, events); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			group.Wait()
			b.StopTimer()
			rate := float64(b.N) / b.Elapsed().Seconds()
			b.ReportMetric(rate, "appends/s")
			b.ReportMetric(rate/rawRate(b, max(b.N, 2000)), "of-raw-driver")
		})
	}
}

// BenchmarkRun measures application code that inserts one row through database/sql.
func BenchmarkRun(b *testing.B) {
	l := start(b, table)
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	for b.Loop() {
		if err := l.Run(ctx, func(tx *ledgeractor.Tx) error {
			_, err := tx.ExecContext(tx.Context(), "INSERT INTO notes (body) VALUES ('x')")
			return err
		}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkQuery measures a read of one row.
func BenchmarkQuery(b *testing.B) {
	l := start(b)
	_, err := l.Append(context.Background(), event("x"))
	require.NoError(b, err)
	for b.Loop() {
		if _, err := l.Query(context.Background(), "SELECT kind FROM events WHERE seq = ?", 1); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCut measures an image of a ledger of 10 MB.
func BenchmarkCut(b *testing.B) {
	l := start(b)
	batch := make([]messages.Event, 1000)
	for i := range batch {
		batch[i] = messages.Event{Kind: "x", Payload: payload(`"%01000d"`, i)}
	}
	for range 10 {
		_, err := l.Append(context.Background(), batch)
		require.NoError(b, err)
	}
	for b.Loop() {
		image, err := l.Cut(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(image.Bytes)))
	}
}

// BenchmarkIdle measures what an open ledger costs while nobody uses it, after one append.
func BenchmarkIdle(b *testing.B) {
	resident := func() int64 {
		runtime.GC()
		text, err := os.ReadFile("/proc/self/statm")
		require.NoError(b, err)
		var size, pages int64
		_, err = fmt.Sscan(string(text), &size, &pages)
		require.NoError(b, err)
		return pages * int64(os.Getpagesize())
	}
	dir := b.TempDir()
	system := mailbox.NewSystem(slog.New(slog.DiscardHandler))
	before := resident()
	for i := 0; b.Loop(); i++ {
		actor := ledgeractor.New(ledgeractor.Config{Path: filepath.Join(dir, fmt.Sprint(i)), Key: testKey, Fence: held{}}, nil)
		_, err := actor.Handle(system.Spawn(actor)).Append(context.Background(), event("x"))
		require.NoError(b, err)
	}
	b.StopTimer()
	b.ReportMetric(float64(resident()-before)/float64(b.N)/1024, "KiB/ledger")
	require.NoError(b, system.Shutdown(context.Background()))
}
