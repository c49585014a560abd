package ledgeractor_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

// queries makes the ledgers that are given it share one Queries.
func queries(t testing.TB, cfg ledgeractor.QueriesConfig) (*ledgeractor.Queries, func(*ledgeractor.Config)) {
	cfg.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	q, err := ledgeractor.NewQueries(cfg)
	require.NoError(t, err)
	t.Cleanup(q.Close)
	return q, func(c *ledgeractor.Config) { c.Queries = q }
}

// bothWays runs a test with queries in this process, and in processes of their own.
func bothWays(t *testing.T, test func(t *testing.T, ways func(*ledgeractor.Config))) {
	t.Run("here", func(t *testing.T) { test(t, func(*ledgeractor.Config) {}) })
	t.Run("in processes", func(t *testing.T) {
		_, with := queries(t, ledgeractor.QueriesConfig{Processes: true, TempDir: t.TempDir()})
		test(t, with)
	})
}

func tenant(n int) func(*ledgeractor.Config) {
	return func(c *ledgeractor.Config) { c.Key.Tenant = messages.TenantID(fmt.Sprintf("t-%032x", n)) }
}

// What SQLite cannot interrupt is killed: the caller is answered in time, and nobody else waits for it.
func TestQ3_AQueryNeverOverrunsItsTimeout(t *testing.T) {
	q, with := queries(t, ledgeractor.QueriesConfig{Processes: true})
	l := start(t, table, with)
	require.NoError(t, l.Run(t.Context(), func(tx *ledgeractor.Tx) error {
		_, err := tx.ExecContext(tx.Context(), "INSERT INTO notes (body) VALUES (replace(hex(zeroblob(4000000)), '0', 'a'))")
		return err
	}))
	var globs []string
	for range 12 {
		globs = append(globs, "body GLOB '*' || substr(body, 1, 250) || 'b*'")
	}
	for _, query := range []string{
		endless,
		"SELECT " + strings.Join(globs, ", ") + " FROM notes", // minutes, without a step in between
		"SELECT " + strings.Repeat("upper(body) = ", 150) + "1 FROM notes",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		begun := time.Now()
		_, err := l.Query(ctx, query)
		took := time.Since(begun)
		cancel()
		requireCode(t, err, messages.CodeDeadlineExceeded)
		t.Logf("%.40s: %v", query, took)
		require.Less(t, took, 5*time.Second, query) // some ms, but for what else the machine does
		l.append("meanwhile")
		require.NotEmpty(t, l.kinds())
		require.EqualValues(t, 1, l.count("SELECT count(*) FROM notes"))
	}
	require.Eventually(t, func() bool { return q.Status().Killed > 0 }, 10*time.Second, time.Millisecond)

	// And a ledger that closes does not wait for one.
	done := make(chan error, 1)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	busy := start(t, table, with, tenant(5), limits(ledgeractor.Limits{QueryTimeout: time.Minute}))
	go func() {
		_, err := busy.Query(ctx, "SELECT "+strings.Repeat("(x GLOB x || 'b') + ", 20)+"1 FROM (SELECT replace(hex(zeroblob(8000000)), '0', 'a') AS x)")
		done <- err
	}()
	require.Eventually(t, func() bool { return q.Status().Running == 1 }, 10*time.Second, time.Millisecond)
	begun := time.Now()
	busy.stop()
	require.Less(t, time.Since(begun), 5*time.Second)
	requireCode(t, <-done, messages.CodeClosed)
	require.Equal(t, []string{"ledger.db"}, busy.files())
}

// A query has the memory of its process and no more; the node, its ledgers and a lease store in SQLite have theirs.
func TestQ3_AQueryHasItsOwnMemory(t *testing.T) {
	_, with := queries(t, ledgeractor.QueriesConfig{Processes: true, Memory: 64 << 20})
	patient := limits(ledgeractor.Limits{QueryTimeout: time.Minute, CallTimeout: time.Minute})
	l, other := start(t, table, with, patient), start(t, table, with, patient, tenant(1))
	for _, bomb := range []string{
		"SELECT " + strings.TrimSuffix(strings.Repeat("zeroblob(15000000), ", 40), ", "),
		"SELECT length(group_concat(x)) FROM (SELECT hex(zeroblob(8000000)) AS x UNION ALL SELECT 1 ORDER BY x)",
		"SELECT " + strings.Repeat("length(hex(zeroblob(7000000)) || ", 30) + "1" + strings.Repeat(")", 30),
		"SELECT " + strings.Repeat("(SELECT ", 150) + "1" + strings.Repeat(")", 150) + strings.Repeat(" UNION ALL SELECT 1", 90),
	} {
		_, err := l.Query(t.Context(), bomb)
		if err != nil {
			requireCode(t, err, messages.CodeTooLarge, messages.CodeSQL, messages.CodeDeadlineExceeded)
		}
		l.append("after")
		other.append("after")
		require.EqualValues(t, 1, other.count("SELECT 1"))
	}
	_, err := l.Query(t.Context(), "SELECT "+strings.TrimSuffix(strings.Repeat("zeroblob(15000000), ", 40), ", "))
	requireCode(t, err, messages.CodeTooLarge)
}

// Tenants take turns, and one whose query has run for long gives way: nobody waits for an endless one.
func TestQ3_QueriesAreSharedFairlyByTenant(t *testing.T) {
	bothWays := map[string]bool{"here": false, "in processes": true}
	for name, processes := range bothWays {
		t.Run(name, func(t *testing.T) {
			q, with := queries(t, ledgeractor.QueriesConfig{Max: 2, Share: 100 * time.Millisecond, Processes: processes})
			greedy := start(t, with, tenant(1), limits(ledgeractor.Limits{QueryTimeout: time.Minute, MaxReaders: 4}))
			modest := start(t, with, tenant(2), limits(ledgeractor.Limits{QueryTimeout: time.Minute}))
			ctx, cancel := context.WithCancel(t.Context())
			var endlessOnes sync.WaitGroup
			codes := make(chan messages.Code, 8)
			for range 8 {
				endlessOnes.Go(func() { _, err := greedy.Query(ctx, endless); codes <- messages.CodeOf(err) })
			}
			require.Eventually(t, func() bool { s := q.Status(); return s.Running >= 1 && s.Waiting >= 6 }, 10*time.Second, time.Millisecond)
			require.Equal(t, 1, q.Status().Running, "a tenant has half of the places")
			second := start(t, with, tenant(3), limits(ledgeractor.Limits{QueryTimeout: time.Minute}))
			go func() { _, _ = second.Query(ctx, endless) }()
			require.Eventually(t, func() bool { return q.Status().Running == 2 }, 10*time.Second, time.Millisecond)
			begun := time.Now()
			for range 3 {
				require.EqualValues(t, 1, modest.count("SELECT 1"))
			}
			t.Logf("three queries beside endless ones: %v", time.Since(begun))
			cancel()
			endlessOnes.Wait()
			close(codes)
			for code := range codes {
				require.Contains(t, []messages.Code{messages.CodeCanceled, messages.CodeOverloaded}, code)
			}
		})
	}
}

// A ledger's reads behave the same in both ways.
func TestQ3_BothWaysAnswerAlike(t *testing.T) {
	bothWays(t, func(t *testing.T, ways func(*ledgeractor.Config)) {
		l := start(t, table, ways, limits(ledgeractor.Limits{MaxRows: 3, MaxBytes: 1000, QueryTimeout: 10 * time.Second}))
		for range 5 {
			l.append("x")
		}
		r, err := l.Query(t.Context(), "SELECT 1 AS a, 1.5, 'text', x'00ff', NULL, x'', '', 9223372036854775807, -1")
		require.NoError(t, err)
		require.Equal(t, []any{int64(1), 1.5, "text", []byte{0, 255}, nil, []byte{}, "", int64(9223372036854775807), int64(-1)}, r.Rows[0])
		require.Equal(t, "a", r.Columns[0])
		r, err = l.Query(t.Context(), "SELECT ?, :b, typeof(?3)", 7, sql.Named("b", "named"), []byte("x"))
		require.NoError(t, err)
		require.Equal(t, []any{int64(7), "named", "blob"}, r.Rows[0])
		for query, rows := range map[string]int{"SELECT seq FROM events": 3, "SELECT hex(zeroblob(300)) FROM events": 1} {
			r, err := l.Query(t.Context(), query)
			require.NoError(t, err)
			require.True(t, r.Truncated, query)
			require.Len(t, r.Rows, rows, query)
		}
		r, err = l.Query(t.Context(), "SELECT seq FROM events LIMIT 3")
		require.NoError(t, err)
		require.False(t, r.Truncated)
		for query, code := range map[string]messages.Code{
			"SELECT hex(zeroblob(600))": messages.CodeTooLarge, "DELETE FROM events": messages.CodeReadOnly, "SELECT * FROM nowhere": messages.CodeSQL,
			"PRAGMA journal_mode": messages.CodeReadOnly, "SELECT json_patch('{}', '{}')": messages.CodeReadOnly, "SELECT ?": messages.CodeInvalidArgument,
			"SELECT abs(-9223372036854775808)": messages.CodeSQL,
		} {
			_, err := l.Query(t.Context(), query)
			requireCode(t, err, code)
			if code != messages.CodeInvalidArgument && code != messages.CodeTooLarge {
				require.Equal(t, testKey.String(), messages.AsError(err).Key, query)
			}
		}
		// What was acknowledged is seen at once.
		for i := range 20 {
			l.append("more")
			require.EqualValues(t, 6+i, l.count("SELECT count(*) FROM events"))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err = l.Query(ctx, endless)
		requireCode(t, err, messages.CodeDeadlineExceeded)
		l.fence.close()
		_, err = l.Query(t.Context(), "SELECT 1")
		requireCode(t, err, messages.CodeFenced)
		l.fence.closed.Store(false)
		// The fence closes while rows come.
		l.fence.at(4, l.fence.close)
		_, err = l.Query(t.Context(), "SELECT seq FROM events LIMIT 3")
		requireCode(t, err, messages.CodeFenced)
		l.fence.closed.Store(false)
		l.stop()
		require.Equal(t, []string{"ledger.db"}, l.files(), "nobody has it open")
		_, err = l.Query(t.Context(), "SELECT 1")
		requireCode(t, err, messages.CodeClosed)
	})
}

// More ledgers than a process keeps open, and a process that dies between two queries.
func TestQueryProcesses_ManyLedgersAndDeaths(t *testing.T) {
	q, with := queries(t, ledgeractor.QueriesConfig{Processes: true, Max: 2})
	var all []*ledger
	for n := range 20 {
		all = append(all, start(t, table, with, tenant(n)))
	}
	for range 2 {
		for _, l := range all {
			l.append("x")
			require.Positive(t, l.count("SELECT count(*) FROM events"))
		}
	}
	require.Equal(t, 1, q.Status().Processes)
	q.KillProcesses()
	require.Eventually(t, func() bool { return q.Status().Processes == 0 }, 10*time.Second, time.Millisecond)
	for _, l := range all {
		require.EqualValues(t, 2, l.count("SELECT count(*) FROM events"))
		l.stop()
		require.Equal(t, []string{"ledger.db"}, l.files())
	}
	require.Zero(t, q.Status().Killed)
}

// Reads that overlap leave SQLite no moment to begin its write-ahead log anew.
func TestQ3_OverlappingReadsDoNotGrowTheLog(t *testing.T) {
	bothWays(t, func(t *testing.T, ways func(*ledgeractor.Config)) {
		l := start(t, ways, limits(ledgeractor.Limits{QueryTimeout: 400 * time.Millisecond, MaxReaders: 3}))
		ctx, cancel := context.WithCancel(t.Context())
		var reading sync.WaitGroup
		for i := range 2 {
			reading.Go(func() {
				wait := time.NewTimer(time.Duration(i) * 200 * time.Millisecond)
				<-wait.C
				for ctx.Err() == nil {
					_, err := l.Query(ctx, endless+" WHERE x > (SELECT count(*) FROM events)")
					if code := messages.CodeOf(err); code != messages.CodeDeadlineExceeded && code != messages.CodeOverloaded && code != messages.CodeCanceled {
						t.Error(err)
						return
					}
				}
			})
		}
		largest := int64(0)
		big := payload(`"%s"`, strings.Repeat("x", 1<<20-2))
		for range 80 {
			_, err := l.Append(t.Context(), []messages.Event{{Kind: "big", Payload: big}})
			require.NoError(t, err)
			if info, err := os.Stat(l.path + "-wal"); err == nil {
				largest = max(largest, info.Size())
			}
		}
		cancel()
		reading.Wait()
		t.Logf("80 MB written beside overlapping reads: the log had at most %d MB", largest>>20)
		require.Less(t, largest, int64(60<<20))
		require.EqualValues(t, 80, l.count("SELECT count(*) FROM events"))
	})
}

// SQLite's temporary files go where they are told to, in this process and in query processes.
func TestTemporaryFilesGoToTheChosenFolder(t *testing.T) {
	// Where the environment points to is no folder: without the choice SQLite would take another one.
	t.Setenv("SQLITE_TMPDIR", filepath.Join(t.TempDir(), "nowhere"))
	folder := filepath.Join(t.TempDir(), "it's here")
	require.NoError(t, ledgeractor.UseTempDir(folder))
	var chosen string
	require.NoError(t, raw(t, ":memory:").QueryRow("PRAGMA temp_store_directory").Scan(&chosen))
	require.Equal(t, folder, chosen)
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	requireCode(t, ledgeractor.UseTempDir(filepath.Join(file, "below")), messages.CodeStorage)
}

// A query process has its temporary files there too.
func TestQueryProcesses_TemporaryFiles(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the open files of a process are looked up in /proc")
	}
	folder := t.TempDir()
	q, with := queries(t, ledgeractor.QueriesConfig{Processes: true, TempDir: folder})
	l := start(t, with)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := l.Query(ctx, "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT hex(randomblob(1000)) AS r FROM c ORDER BY r")
		done <- err
	}()
	require.Eventually(t, func() bool {
		for _, pid := range q.ProcessIDs() {
			files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
			for _, file := range files {
				if name, _ := os.Readlink(file); strings.HasPrefix(name, folder) {
					return true
				}
			}
		}
		return false
	}, 20*time.Second, 5*time.Millisecond)
	cancel()
	requireCode(t, <-done, messages.CodeCanceled)
}

// The turns of many tenants, on a clock of their own.
func TestQ3_Turns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := ledgeractor.NewFairQueue(4, time.Second, time.Now)
		key := func(n int) messages.Key {
			return messages.Key{Org: "acme", Tenant: messages.TenantID(fmt.Sprintf("t-%032x", n))}
		}
		var all sync.WaitGroup
		waited, first := make([]time.Duration, 20), make([]time.Duration, 20)
		start := time.Now()
		for n := range 20 { // 40 endless queries over 20 tenants
			for range 2 {
				all.Go(func() {
					for begun := time.Now(); time.Since(begun) < time.Minute; {
						ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
						ctx2, release, err := q.Acquire(ctx, key(n), 2, 100)
						if err == nil {
							<-ctx2.Done()
							release()
						}
						cancel()
					}
				})
			}
		}
		for n := 20; n < 40; n++ { // beside 20 whose queries take 10 ms
			all.Go(func() {
				for begun := time.Now(); time.Since(begun) < time.Minute; {
					asked := time.Now()
					_, release, err := q.Acquire(t.Context(), key(n), 2, 100)
					require.NoError(t, err)
					if asked.Sub(start) < 10*time.Second { // nobody has used anything yet: all are alike
						first[n-20] = max(first[n-20], time.Since(asked))
					} else {
						waited[n-20] = max(waited[n-20], time.Since(asked))
					}
					time.Sleep(10 * time.Millisecond)
					release()
					time.Sleep(500 * time.Millisecond)
				}
			})
		}
		all.Wait()
		t.Logf("20 tenants beside 40 endless queries over 20 others waited at most %v, and in the first 10 s %v", slices.Max(waited), slices.Max(first))
		require.Less(t, slices.Max(waited), 1500*time.Millisecond)
		require.LessOrEqual(t, slices.Max(first), 10*time.Second, "40 tenants, 4 places, a second for each")
	})
}
