package ledgeractor_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/mailbox"
)

// The lease ends at every check that there is on the way of a call: before, inside, at the commit, and
// after it.
func TestG2_W2_TheOutputStandsExactlyIfTheWorkStands(t *testing.T) {
	var runs atomic.Int64
	l := start(t, noting(&runs, nil))
	seen := map[messages.Code]int{}
	for n := int64(1); ; n++ {
		key := fmt.Sprint(n)
		before := l.kept()
		l.fence.at(n, l.fence.close)
		_, duplicate, err := l.CallOnce(t.Context(), "note", key, nil)
		l.fence.onNth.Store(0)
		ended := l.fence.closed.Swap(false)
		require.False(t, duplicate)
		seen[messages.CodeOf(err)]++
		after := l.kept()
		stands := after[0] - before[0]
		require.Equal(t, stands, after[1]-before[1], "check %d", n)
		switch messages.CodeOf(err) {
		case "":
			require.EqualValues(t, 1, stands)
		case messages.CodeFenced:
			require.Zero(t, stands)
		default:
			requireCode(t, err, messages.CodeUnknownOutcome)
			require.EqualValues(t, 1, stands)
		}
		_, duplicate, err = l.CallOnce(t.Context(), "note", key, nil)
		require.NoError(t, err)
		require.Equal(t, stands == 1, duplicate, "the retry settles it: check %d", n)
		require.Equal(t, [2]int64{before[0] + 1, before[1] + 1}, l.kept())
		if !ended {
			break // there are no more checks
		}
	}
	require.Equal(t, 1, seen[messages.CodeUnknownOutcome])
	require.GreaterOrEqual(t, seen[messages.CodeFenced], 5)
	require.Equal(t, 1, seen[""])
}

// SQLite gives the whole transaction up when it has to interrupt a write. Application code that
// swallows this must not have its output stored outside of the transaction.
func TestW2_NoOutputStandsAfterTheDatabaseRolledBack(t *testing.T) {
	var runs atomic.Int64
	var calm atomic.Bool
	inside := make(chan error, 1)
	l := start(t, noting(&runs, func(ctx context.Context, tx *ledgeractor.Tx, _ json.RawMessage) (any, error) {
		_, err := tx.ExecContext(ctx, "INSERT INTO notes (body) VALUES ('lost')")
		if calm.Load() {
			return "done", err
		}
		short, cancel := context.WithTimeout(ctx, time.Second) // it must pass in the middle of the statement, not before
		defer cancel()
		_, err = tx.ExecContext(short, "INSERT INTO notes (body) "+endless)
		inside <- err
		return "done", nil
	}))
	out, _, err := l.CallOnce(t.Context(), "own", "k", nil)
	require.Error(t, <-inside)
	requireCode(t, err, messages.CodeStorage)
	require.Nil(t, out)
	require.Equal(t, [2]int64{0, 0}, l.kept())
	calm.Store(true)
	_, duplicate, err := l.CallOnce(t.Context(), "own", "k", nil)
	require.NoError(t, err)
	require.False(t, duplicate)
	require.Equal(t, [2]int64{1, 1}, l.kept())
}

// An output that cannot be stored takes the work back: here it is larger than what SQLite may hold.
func TestW2_AnOutputThatCannotBeStoredUndoesTheWork(t *testing.T) {
	var runs atomic.Int64
	large := func(ctx context.Context, tx *ledgeractor.Tx, _ json.RawMessage) (any, error) {
		_, err := tx.ExecContext(ctx, "INSERT INTO notes (body) VALUES ('x')")
		return strings.Repeat("x", 3<<20), err
	}
	l := start(t, noting(&runs, large), func(c *ledgeractor.Config) { c.Limits.MaxValueBytes, c.Limits.MaxOutputBytes = 2<<20, 8<<20 })
	_, _, err := l.CallOnce(t.Context(), "own", "k", nil)
	requireCode(t, err, messages.CodeTooLarge)
	require.Equal(t, [2]int64{0, 0}, l.kept())
	_, err = l.Call(t.Context(), "own", nil)
	require.NoError(t, err, "without a key nothing is stored")
	require.Equal(t, [2]int64{1, 0}, l.kept())
	_, _, err = l.CallOnce(t.Context(), "note", "k", nil)
	require.NoError(t, err, "the key is free")
}

func TestG1_H5_CallsWithAKeyAreRefusedLikeAllOthers(t *testing.T) {
	var runs atomic.Int64
	l := start(t, noting(&runs, nil))
	_, _, err := l.CallOnce(t.Context(), "note", "k", nil)
	require.NoError(t, err)
	refused := func(code messages.Code) {
		t.Helper()
		for _, key := range []string{"k", "new"} { // a duplicate is an acknowledgement too
			_, _, err := l.CallOnce(t.Context(), "note", key, nil)
			requireCode(t, err, code)
		}
	}
	l.fence.close()
	refused(messages.CodeFenced)
	l.fence.closed.Store(false)
	require.NoError(t, l.Drain(t.Context()))
	refused(messages.CodeDraining)
	require.NoError(t, l.Undrain(t.Context()))
	require.NoError(t, l.Run(t.Context(), func(tx *ledgeractor.Tx) error {
		_, _, err := l.CallOnce(tx.Context(), "note", "k", nil)
		requireCode(t, err, messages.CodeInvalidArgument) // from inside the ledger's own transaction
		return nil
	}))
	require.Equal(t, [2]int64{1, 1}, l.kept())
	l.stop()
	refused(messages.CodeClosed)
	require.EqualValues(t, 1, runs.Load())
}

// crashEnv makes this test binary a process that serves a ledger and is killed; see TestMain.
const crashEnv = "LEASEHOLD_TEST_ONCE_CRASH"

// serveUntilKilled calls "note" with one key after the other, for ever, and prints each that was
// acknowledged.
func serveUntilKilled(path string) {
	var runs atomic.Int64
	cfg := ledgeractor.Config{Path: path, Key: testKey, Epoch: testEpoch, Fence: held{}}
	noting(&runs, nil)(&cfg)
	actor := ledgeractor.New(cfg, nil)
	l := actor.Handle(mailbox.NewSystem(slog.New(slog.DiscardHandler)).Spawn(actor))
	for i := 0; ; i++ {
		key := fmt.Sprint(i)
		if _, _, err := l.CallOnce(context.Background(), "note", key, json.RawMessage(key)); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		fmt.Println(key)
	}
}

func TestW2_AfterACrashTheOutputStandsExactlyIfTheWorkStands(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	var acknowledged []string
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), crashEnv+"="+path, "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		acknowledged = append(acknowledged, lines.Text())
		if len(acknowledged) == 200 {
			require.NoError(t, cmd.Process.Signal(syscall.SIGKILL)) // in the middle of some later call
		}
	}
	require.NoError(t, lines.Err())
	require.Error(t, cmd.Wait(), "it was killed")
	require.GreaterOrEqual(t, len(acknowledged), 200)

	var runs atomic.Int64
	l := start(t, at(path), noting(&runs, nil))
	kept := l.kept()
	require.Equal(t, kept[0], kept[1])
	require.Equal(t, kept[0], l.count("SELECT count(*) FROM notes JOIN leasehold_commands ON body = idem_key"), "the same ones")
	require.GreaterOrEqual(t, kept[0], int64(len(acknowledged)), "a commit survives the process")
	for i := range kept[0] + 1 {
		key := fmt.Sprint(i)
		out, duplicate, err := l.CallOnce(t.Context(), "note", key, json.RawMessage(key))
		require.NoError(t, err)
		require.Equal(t, i < kept[0], duplicate)
		require.JSONEq(t, fmt.Sprintf(`{"seq": %d, "html": "<&>"}`, i+1), string(out))
	}
	require.EqualValues(t, 1, runs.Load())
}
