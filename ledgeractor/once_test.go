package ledgeractor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

// noting registers commands that count their runs and leave a row of notes: "note" succeeds, "fail"
// returns an error, "panic" panics, "pause" waits until its caller gives up, "own" is the test's.
func noting(runs *atomic.Int64, own ledgeractor.Command) func(*ledgeractor.Config) {
	insert := func(ctx context.Context, tx *ledgeractor.Tx, in json.RawMessage) (any, error) {
		runs.Add(1)
		if _, err := tx.ExecContext(ctx, "INSERT INTO notes (body) VALUES (?)", string(in)); err != nil {
			return nil, err
		}
		out, err := tx.Append(ctx, messages.Event{Kind: "noted"})
		return map[string]any{"seq": out.Seq, "html": "<&>"}, err
	}
	after := func(f func(context.Context) error) ledgeractor.Command {
		return func(ctx context.Context, tx *ledgeractor.Tx, in json.RawMessage) (any, error) {
			out, err := insert(ctx, tx, in)
			return out, errors.Join(err, f(ctx))
		}
	}
	return func(c *ledgeractor.Config) {
		table(c)
		c.Commands = map[string]ledgeractor.Command{
			"note": insert, "twin": insert,
			"fail":  after(func(context.Context) error { return errors.New("no") }),
			"panic": after(func(context.Context) error { panic("no") }),
			"pause": after(func(ctx context.Context) error { <-ctx.Done(); return nil }),
			"idle":  func(context.Context, *ledgeractor.Tx, json.RawMessage) (any, error) { return nil, nil },
			"huge":  func(context.Context, *ledgeractor.Tx, json.RawMessage) (any, error) { return make([]byte, 4000), nil },
		}
		if own != nil {
			c.Commands["own"] = own
		}
		c.Limits.MaxOutputBytes = 2000
	}
}

// kept counts what commands left behind: rows of notes, and keys.
func (l *ledger) kept() [2]int64 {
	return [2]int64{l.count("SELECT count(*) FROM notes"), l.count("SELECT count(*) FROM leasehold_commands")}
}

func TestW2_ACommandWithAKeyRunsOnce(t *testing.T) {
	var runs atomic.Int64
	l := start(t, noting(&runs, nil))
	in := json.RawMessage(`{"body": "hi"}`)
	first, duplicate, err := l.CallOnce(t.Context(), "note", "k", in)
	require.NoError(t, err)
	require.False(t, duplicate)
	require.JSONEq(t, `{"seq": 1, "html": "<&>"}`, string(first))
	version := l.Version()
	for range 3 {
		again, duplicate, err := l.CallOnce(t.Context(), "note", "k", in)
		require.NoError(t, err)
		require.True(t, duplicate)
		require.Equal(t, string(first), string(again), "the same bytes")
	}
	require.Equal(t, version, l.Version(), "a duplicate changes nothing")
	require.EqualValues(t, 1, runs.Load())
	require.Equal(t, [2]int64{1, 1}, l.kept())

	// Another key, no key, and the key of an event are other calls.
	_, err = l.Append(t.Context(), keyed("x", "event"))
	require.NoError(t, err)
	for _, key := range []string{"event", "k2", "", "", "K", "k "} {
		_, duplicate, err = l.CallOnce(t.Context(), "note", key, in)
		require.NoError(t, err)
		require.False(t, duplicate, "%q", key)
	}
	require.Equal(t, [2]int64{7, 5}, l.kept(), "a call without a key leaves none")
	version = l.Version()
	_, _, err = l.CallOnce(t.Context(), "idle", "did nothing else", nil)
	require.NoError(t, err)
	require.Equal(t, version+1, l.Version(), "the key alone is a change, for the next snapshot")
	out, err := l.Append(t.Context(), keyed("x", "k"))
	require.NoError(t, err)
	require.False(t, out[0].Duplicate, "keys of commands are not keys of events")

	// The next owner has them, from the image.
	image, err := l.Cut(t.Context())
	require.NoError(t, err)
	path := write(t, image.Bytes)
	_, err = ledgeractor.Verify(t.Context(), path, testKey)
	require.NoError(t, err)
	next := start(t, at(path), noting(&runs, nil))
	again, duplicate, err := next.CallOnce(t.Context(), "note", "k", in)
	require.NoError(t, err)
	require.True(t, duplicate)
	require.Equal(t, string(first), string(again))
	require.EqualValues(t, 7, runs.Load())
}

func TestW2_AKeyBelongsToOneCommandAndOneInput(t *testing.T) {
	var runs atomic.Int64
	l := start(t, noting(&runs, nil))
	const key = "secret-key"
	_, _, err := l.CallOnce(t.Context(), "note", key, json.RawMessage(`{"a":1}`))
	require.NoError(t, err)
	version := l.Version()
	for name, call := range map[string]struct{ command, in string }{
		"another command":                {"twin", `{"a":1}`},
		"a command that nobody knows":    {"gone", `{"a":1}`},
		"another input":                  {"note", `{"a":2}`},
		"a number of another value":      {"note", `{"a":1.5}`},
		"no input":                       {"note", ""},
		"another command and its input":  {"twin", "null"},
		"another input, that of no call": {"note", "[]"},
	} {
		out, duplicate, err := l.CallOnce(t.Context(), call.command, key, json.RawMessage(call.in))
		requireCode(t, err, messages.CodeIdempotencyConflict)
		require.Contains(t, err.Error(), "used for something else", name)
		require.NotContains(t, err.Error(), key)
		require.Nil(t, out)
		require.False(t, duplicate)
	}
	for _, same := range []string{`{"a":1}`, ` { "a" : 1.0 } `, `{"\u0061":10e-1}`} {
		_, duplicate, err := l.CallOnce(t.Context(), "note", key, json.RawMessage(same))
		require.NoError(t, err, same)
		require.True(t, duplicate)
	}
	require.EqualValues(t, 1, runs.Load())
	require.Equal(t, version, l.Version())
	require.Equal(t, [2]int64{1, 1}, l.kept())

	// Empty input stands for null.
	_, duplicate, err := l.CallOnce(t.Context(), "note", "empty", nil)
	require.NoError(t, err)
	require.False(t, duplicate)
	_, duplicate, err = l.CallOnce(t.Context(), "note", "empty", json.RawMessage("null"))
	require.NoError(t, err)
	require.True(t, duplicate)
}

func TestW2_KeysOfCommandsHaveTheLimitsOfThoseOfEvents(t *testing.T) {
	var runs atomic.Int64
	l := start(t, noting(&runs, nil))
	for _, bad := range []struct {
		key  string
		code messages.Code
	}{
		{strings.Repeat("x", messages.MaxEventNameBytes+1), messages.CodeTooLarge},
		{"a\x00b", messages.CodeInvalidArgument}, {"\xff", messages.CodeInvalidArgument}, {"a\xc3", messages.CodeInvalidArgument},
	} {
		_, _, err := l.CallOnce(t.Context(), "note", bad.key, nil)
		requireCode(t, err, bad.code)
		_, err = l.Append(t.Context(), keyed("x", bad.key))
		requireCode(t, err, bad.code)
	}
	require.Zero(t, runs.Load())
	for _, good := range []string{strings.Repeat("x", messages.MaxEventNameBytes), "ключ 🔑", "'; --", " "} {
		for _, want := range []bool{false, true} {
			_, duplicate, err := l.CallOnce(t.Context(), "note", good, nil)
			require.NoError(t, err)
			require.Equal(t, want, duplicate, good)
		}
	}
	// What makes a call fail without a key makes it fail with one.
	for in, code := range map[string]messages.Code{"{": messages.CodeInvalidArgument, "": messages.CodeNotFound} {
		_, _, err := l.CallOnce(t.Context(), "gone", "new", json.RawMessage(in))
		requireCode(t, err, code)
		_, err = l.Call(t.Context(), "gone", json.RawMessage(in))
		requireCode(t, err, messages.CodeNotFound)
	}
	require.Equal(t, [2]int64{4, 4}, l.kept())
}

func TestW2_AFailedCommandStoresNothingAndMayBeRetried(t *testing.T) {
	var runs atomic.Int64
	var broken atomic.Bool
	broken.Store(true)
	l := start(t, noting(&runs, func(ctx context.Context, tx *ledgeractor.Tx, _ json.RawMessage) (any, error) {
		_, err := tx.ExecContext(ctx, "INSERT INTO notes (body) VALUES ('own')")
		if broken.Load() {
			return nil, errors.New("not yet")
		}
		return 42, err
	}))
	version := l.Version()
	for command, code := range map[string]messages.Code{"fail": messages.CodeCommandFailed, "panic": messages.CodePanic,
		"huge": messages.CodeTooLarge, "own": messages.CodeCommandFailed, "gone": messages.CodeNotFound} {
		for range 2 {
			_, _, err := l.CallOnce(t.Context(), command, "k", nil)
			requireCode(t, err, code)
		}
	}
	// A caller that goes while it runs.
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	before := runs.Load()
	go func() { _, _, err := l.CallOnce(ctx, "pause", "k", nil); result <- err }()
	require.Eventually(t, func() bool { return runs.Load() > before }, 10*time.Second, 100*time.Microsecond)
	cancel()
	requireCode(t, <-result, messages.CodeUnknownOutcome, messages.CodeCanceled)
	require.Equal(t, [2]int64{0, 0}, l.kept())
	require.Equal(t, version, l.Version())

	broken.Store(false)
	for _, want := range []bool{false, true} {
		out, duplicate, err := l.CallOnce(t.Context(), "own", "k", nil)
		require.NoError(t, err)
		require.Equal(t, want, duplicate)
		require.Equal(t, "42", string(out))
	}
	require.Equal(t, [2]int64{1, 1}, l.kept())
}

func TestW2_TheSameKeyTwiceInOneBatchRunsOnce(t *testing.T) {
	var runs atomic.Int64
	l := start(t, noting(&runs, nil))
	type result struct {
		out       string
		duplicate bool
		err       error
	}
	results := make([]chan result, 6)
	call := func(i int, command, key, in string) {
		results[i] = make(chan result, 1)
		l.taking(1, func() {
			out, duplicate, err := l.CallOnce(context.Background(), command, key, json.RawMessage(in))
			results[i] <- result{string(out), duplicate, err}
		})
	}
	version := l.Version()
	release := l.hold()
	call(0, "fail", "k", "1") // it fails alone, and leaves the key free
	call(1, "note", "k", "1")
	call(2, "note", "k", "1")
	call(3, "twin", "k", "1")
	call(4, "note", "k", "2")
	call(5, "note", "k", "1")
	release()
	first := <-results[1]
	require.NoError(t, first.err)
	require.False(t, first.duplicate)
	for _, i := range []int{2, 5} {
		require.Equal(t, result{first.out, true, nil}, <-results[i])
	}
	requireCode(t, (<-results[0]).err, messages.CodeCommandFailed)
	requireCode(t, (<-results[3]).err, messages.CodeIdempotencyConflict)
	requireCode(t, (<-results[4]).err, messages.CodeIdempotencyConflict)
	require.Equal(t, version+1, l.Version(), "they did share a commit")
	require.Equal(t, [2]int64{1, 1}, l.kept())
	require.EqualValues(t, 2, runs.Load())

	// If their batch is rolled back, the second must not have promised what the first has lost.
	release = l.hold()
	call(0, "note", "lost", "1")
	call(1, "note", "lost", "1")
	last := make(chan error, 1)
	l.taking(1, func() {
		last <- l.Run(context.Background(), func(*ledgeractor.Tx) error { l.fence.close(); return nil })
	})
	release()
	requireFenced(t, (<-results[0]).err)
	requireFenced(t, (<-results[1]).err)
	requireFenced(t, <-last)
	l.fence.closed.Store(false)
	require.EqualValues(t, 3, runs.Load(), "the first did run, the second saw it")
	require.Equal(t, [2]int64{1, 1}, l.kept())
}

func TestW2_ManyCallersOfOneKey(t *testing.T) {
	var runs atomic.Int64
	l := start(t, noting(&runs, nil))
	const callers, keys = 8, 40
	type answer struct {
		key, out string
		first    bool
	}
	answers := make(chan answer, callers*keys)
	for range callers {
		go func() {
			for k := range keys {
				key := fmt.Sprint(k)
				out, duplicate, err := l.CallOnce(context.Background(), "note", key, json.RawMessage(key))
				if err != nil {
					t.Error(err)
				}
				answers <- answer{key, string(out), !duplicate}
			}
		}()
	}
	firsts, outs := map[string]int{}, map[string]map[string]bool{}
	for range callers * keys {
		a := <-answers
		if a.first {
			firsts[a.key]++
		}
		if outs[a.key] == nil {
			outs[a.key] = map[string]bool{}
		}
		outs[a.key][a.out] = true
	}
	require.Len(t, firsts, keys)
	for key, n := range firsts {
		require.Equal(t, 1, n, "the first of %s", key)
		require.Len(t, outs[key], 1, "all get one answer")
	}
	require.EqualValues(t, keys, runs.Load())
	require.Equal(t, [2]int64{keys, keys}, l.kept())
	require.Len(t, l.kinds(), keys)
}
