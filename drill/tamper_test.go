package main

import (
	"database/sql"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/mattn/go-sqlite3"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/drill/record"
	"github.com/leasehold/leasehold/drill/replica"
	"github.com/leasehold/leasehold/drill/verify"
	"github.com/leasehold/leasehold/messages"
)

// testTampered changes what a good run has left behind, each time as a broken system would have left it, and
// looks which invariant is named.
func testTampered(t *testing.T, dir string) {
	judge := func(t *testing.T, name string, tamper func(t *testing.T, dir string)) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			t.Helper()
			changed := copyRun(t, dir)
			tamper(t, changed)
			verdict, err := verify.Judge(t.Context(), changed)
			require.NoError(t, err)
			require.False(t, verdict.OK)
			invariant := strings.TrimPrefix(strings.SplitN(name, "_", 2)[0], "Test")
			require.Contains(t, verdict.Found(), invariant)
			t.Log(verdict.Invariants[invariant[1]-'1'].Broken[0])
		})
	}
	lines, err := record.ReadDir(replica.RecordDir(dir))
	require.NoError(t, err)
	first := func(want func(record.Line) bool) record.Line {
		for _, l := range lines {
			if want(l) {
				return l
			}
		}
		require.Fail(t, "the run has no such line")
		return record.Line{}
	}
	row := first(func(l record.Line) bool { return l.Kind == record.Row })
	granted := first(func(l record.Line) bool {
		return l.Kind == record.LeaseCall && l.Op == messages.OpAcquire && l.Code == "" && l.Epoch == 2 && l.Key == row.Key
	})

	judge(t, "TestI1_AnEpochThatWasSkipped", func(t *testing.T, dir string) { dropGrant(t, dir, row.Key, 2) })
	judge(t, "TestI2_AnEpochServedTwice", func(t *testing.T, dir string) {
		served := first(func(l record.Line) bool {
			return l.Kind == record.Lifecycle && l.Life.Kind == messages.LifecycleServing && l.Epoch == 2
		})
		life := *served.Life
		life.Owner = "r9#intruder"
		served.Life, served.Proc = &life, "r9.1"
		add(t, dir, served)
	})
	judge(t, "TestI3_AnAcknowledgementAfterTheNextGrant", func(t *testing.T, dir string) {
		late := false
		rewrite(t, dir, func(l *record.Line) bool {
			if !late && l.Kind == record.Ack && l.Key == row.Key && l.Epoch == 1 {
				late = true
				l.Wall = granted.Wall.Add(100 * time.Millisecond)
				l.At, l.Since = granted.At+int64(100*time.Millisecond), granted.At+int64(50*time.Millisecond)
			}
			return true
		})
		require.True(t, late)
	})
	judge(t, "TestI4_ARowThatNobodyWrote", func(t *testing.T, dir string) {
		rewrite(t, dir, func(l *record.Line) bool { return l.Write != row.Write || l.Kind == record.Row })
	})
	judge(t, "TestI4_ARowThatIsMissing", func(t *testing.T, dir string) {
		rewrite(t, dir, func(l *record.Line) bool { return l.Kind != record.Row || l.Key != row.Key || l.Seq != 2 })
	})
	judge(t, "TestI4_ARowThatIsThereTwice", func(t *testing.T, dir string) {
		rewrite(t, dir, func(l *record.Line) bool {
			if l.Kind == record.Row && l.Key == row.Key && l.Seq == 2 {
				l.Write, l.Idem = row.Write, row.Idem
			}
			return true
		})
	})
	judge(t, "TestI4_AnImageThatRotted", func(t *testing.T, dir string) { damage(t, dir, ".db") })
	judge(t, "TestI4_APinThatIsGone", func(t *testing.T, dir string) {
		require.NoError(t, os.Remove(newest(t, dir, "base.json")))
	})
	judge(t, "TestI4_ATenantThatCannotBeTakenOver", func(t *testing.T, dir string) {
		rewrite(t, dir, func(l *record.Line) bool { return l.Kind != record.TookOver || l.Key != row.Key })
	})
	judge(t, "TestI4_AnAnswerToNobody", func(t *testing.T, dir string) {
		ack := first(func(l record.Line) bool { return l.Kind == record.Ack })
		ack.Write, ack.Proc = "nobody-1", "r9.1"
		add(t, dir, ack)
	})
	judge(t, "TestI4_AWriteAcknowledgedBeforeACutThatMissesIt", func(t *testing.T, dir string) {
		// The first epoch's own last acknowledgement is told to have come first.
		early := first(func(l record.Line) bool { return l.Kind == record.Ack })
		var last record.Line
		for _, l := range lines {
			if l.Kind == record.Ack && l.Key == early.Key && l.Epoch == early.Epoch && !l.Duplicate {
				last = l
			}
		}
		rewrite(t, dir, func(l *record.Line) bool {
			if l.Kind == record.Ack && l.Write == last.Write {
				l.Wall = early.Wall
			}
			return true
		})
	})
	judge(t, "TestI5_AGracefulEpochThatLostAWrite", func(t *testing.T, dir string) {
		graceful := first(func(l record.Line) bool {
			return l.Kind == record.Lifecycle && l.Life.Kind == messages.LifecycleReleased && l.Life.Flushed != nil && *l.Life.Flushed
		})
		done := false
		rewrite(t, dir, func(l *record.Line) bool {
			if !done && l.Kind == record.Refused && l.Write != "" && l.Key == graceful.Key && l.Code == messages.CodeDraining {
				done = true
				l.Kind, l.Code, l.Reason, l.Epoch, l.Seq = record.Ack, "", "", graceful.Epoch, 1<<30
			}
			return true
		})
		require.True(t, done)
	})
	judge(t, "TestI5_NobodyWasRefusedAsDraining", func(t *testing.T, dir string) {
		rewrite(t, dir, func(l *record.Line) bool { return l.Kind != record.Refused || l.Code != messages.CodeDraining })
	})
	judge(t, "TestI5_ARefusalWithoutACode", func(t *testing.T, dir string) {
		done := false
		rewrite(t, dir, func(l *record.Line) bool {
			if !done && l.Kind == record.Refused {
				done, l.Untyped, l.Code = true, true, messages.CodeInternal
			}
			return true
		})
	})
	judge(t, "TestI6_ARowOfAnotherTenant", func(t *testing.T, dir string) {
		rewrite(t, dir, func(l *record.Line) bool {
			if l.Kind == record.Row && l.Key == row.Key && l.Seq == row.Seq {
				l.Tenant = "t-ffffffffffffffffffffffffffffffff"
			}
			return true
		})
	})
	t.Run("a torn last line is none", func(t *testing.T) {
		changed := copyRun(t, dir)
		f, err := os.OpenFile(anyRecord(t, changed), os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = f.WriteString(`{"k":"ack","at":`)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		verdict, err := verify.Judge(t.Context(), changed)
		require.NoError(t, err)
		require.True(t, verdict.OK)
	})
	t.Run("a record that is damaged in the middle is an error", func(t *testing.T) {
		changed := copyRun(t, dir)
		path := anyRecord(t, changed)
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		data[0] = '?'
		require.NoError(t, os.WriteFile(path, data, 0o600))
		_, err = verify.Judge(t.Context(), changed)
		require.ErrorContains(t, err, "line 1")
	})
}

func anyRecord(t *testing.T, dir string) string {
	paths, err := filepath.Glob(filepath.Join(replica.RecordDir(dir), "r*.jsonl"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	return paths[0]
}

// copyRun copies what Judge reads.
func copyRun(t *testing.T, dir string) string {
	to := t.TempDir()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if rel == "state" {
				return fs.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		if strings.HasPrefix(rel, "durable") || strings.HasPrefix(rel, "archive") {
			return os.Link(path, filepath.Join(to, rel)) // objects are never changed, but replaced
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), data, 0o600)
	}))
	return to
}

// rewrite passes every line of every record through change, and drops those for which it returns false.
func rewrite(t *testing.T, dir string, change func(*record.Line) bool) {
	paths, err := filepath.Glob(filepath.Join(replica.RecordDir(dir), "*.jsonl"))
	require.NoError(t, err)
	for _, path := range paths {
		lines, err := record.ReadFile(path)
		require.NoError(t, err)
		var out []byte
		for _, l := range lines {
			if !change(&l) {
				continue
			}
			data, err := l.Encode()
			require.NoError(t, err)
			out = append(out, data...)
		}
		require.NoError(t, os.WriteFile(path, out, 0o600))
	}
}

// add adds a record of a process that the run did not have.
func add(t *testing.T, dir string, l record.Line) {
	data, err := l.Encode()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(replica.RecordPath(dir, l.Proc), data, 0o600))
}

// newest returns the path of the last object of a run whose name ends in suffix, in the order of names.
func newest(t *testing.T, dir, suffix string) (found string) {
	require.NoError(t, filepath.WalkDir(replica.DurableDir(dir), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, suffix) {
			found = path
		}
		return err
	}))
	require.NotEmpty(t, found)
	return found
}

func damage(t *testing.T, dir, suffix string) {
	path := newest(t, dir, suffix)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	data[len(data)/2] ^= 0xff
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.WriteFile(path, data, 0o600))
}

// dropGrant takes one grant out of the lease file's audit trail, as nothing but a hand can: the file's own rules refuse it.
func dropGrant(t *testing.T, dir, key string, epoch int) {
	db, err := sql.Open("sqlite3", replica.LeasePath(dir))
	require.NoError(t, err)
	defer db.Close()
	_, err = db.Exec(`DELETE FROM trail WHERE key = ? AND epoch = ? AND op = 'acquire'`, key, epoch)
	require.Error(t, err, "the lease file defends its trail")
	triggers, err := db.Query(`SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'trail'`)
	require.NoError(t, err)
	rules := map[string]string{}
	for triggers.Next() {
		var name, text string
		require.NoError(t, triggers.Scan(&name, &text))
		rules[name] = text
	}
	require.NoError(t, triggers.Err())
	for name := range rules {
		_, err := db.Exec(`DROP TRIGGER ` + name)
		require.NoError(t, err)
	}
	done, err := db.Exec(`DELETE FROM trail WHERE key = ? AND epoch = ? AND op = 'acquire'`, key, epoch)
	require.NoError(t, err)
	n, err := done.RowsAffected()
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	for _, text := range rules {
		_, err := db.Exec(text)
		require.NoError(t, err)
	}
}
