package ledgeractor_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

// endless never ends by itself.
const endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT max(x) FROM c"

func TestGroupCommitSharesOneTransaction(t *testing.T) {
	l := start(t)
	version := l.Version()
	release := l.hold()
	results := l.queue(50)
	require.Equal(t, 50, l.Status().Queued)
	release()
	for range 50 {
		require.NoError(t, <-results)
	}
	require.Equal(t, version+1, l.Version(), "one commit for all")
	require.Len(t, l.kinds(), 50)
	for i, kind := range l.kinds() {
		require.Equal(t, fmt.Sprint("queued ", i), kind, "in order")
	}
	require.Zero(t, l.Status().Queued)
}

func TestGroupCommitIsBounded(t *testing.T) {
	l := start(t, limits(ledgeractor.Limits{MaxBatch: 10}))
	version := l.Version()
	release := l.hold()
	results := l.queue(29) // and the held one
	release()
	for range 29 {
		require.NoError(t, <-results)
	}
	require.Equal(t, version+3, l.Version())
}

func TestOneMemberOfABatchFailsAlone(t *testing.T) {
	l := start(t, table)
	mine := errors.New("mine")
	type result struct {
		name string
		err  error
	}
	results := make(chan result, 10)
	run := func(name string, f func(*ledgeractor.Tx) error) {
		l.taking(1, func() { results <- result{name, l.Run(context.Background(), f)} })
	}
	insert := func(tx *ledgeractor.Tx, body string) error {
		_, err := tx.ExecContext(tx.Context(), "INSERT INTO notes (body) VALUES (?)", body)
		return err
	}
	version := l.Version()
	release := l.hold()
	run("good", func(tx *ledgeractor.Tx) error { return insert(tx, "good") })
	run("error", func(tx *ledgeractor.Tx) error { return errors.Join(insert(tx, "bad"), mine) })
	run("panic", func(tx *ledgeractor.Tx) error { _ = insert(tx, "bad"); panic(mine) })
	run("exit", func(tx *ledgeractor.Tx) error { _ = insert(tx, "bad"); runtime.Goexit(); return nil })
	run("constraint", func(tx *ledgeractor.Tx) error {
		_ = insert(tx, "bad")
		_, err := tx.ExecContext(tx.Context(), "INSERT INTO notes (id) SELECT min(id) FROM notes")
		return err
	})
	run("typed", func(tx *ledgeractor.Tx) error {
		_ = insert(tx, "bad")
		return fmt.Errorf("wrapped: %w", &messages.Error{Code: messages.CodeNotFound})
	})
	run("open iterator", func(tx *ledgeractor.Tx) error {
		rows, err := tx.QueryContext(context.Background(), "INSERT INTO notes (body) VALUES ('good'), ('good') RETURNING id")
		require.True(t, rows.Next())
		return err // rows is left open
	})
	run("last", func(tx *ledgeractor.Tx) error {
		out, err := tx.Append(tx.Context(), messages.Event{Kind: "last"})
		require.EqualValues(t, 1, out.Seq)
		return err
	})
	release()
	want := map[string]messages.Code{"good": "", "error": messages.CodeCommandFailed, "panic": messages.CodePanic, "exit": messages.CodePanic,
		"constraint": messages.CodeSQL, "typed": messages.CodeNotFound, "open iterator": "", "last": ""}
	for range want {
		r := <-results
		require.Equal(t, want[r.name], messages.CodeOf(r.err), "%s: %v", r.name, r.err)
		if r.name == "error" || r.name == "panic" {
			require.ErrorIs(t, r.err, mine)
		}
	}
	require.Equal(t, version+1, l.Version(), "they did share a commit")
	require.EqualValues(t, 3, l.count("SELECT count(*) FROM notes WHERE body = 'good'"))
	require.EqualValues(t, 3, l.count("SELECT count(*) FROM notes"))
	require.Equal(t, []string{"last"}, l.kinds())
}

// A multi-event append that fails midway shares a batch with others: nothing of it is committed with them.
func TestW2_AnAppendThatFailsMidwayLeavesNothingInItsBatch(t *testing.T) {
	l := start(t, limits(ledgeractor.Limits{MaxImageBytes: 1 << 20}))
	release := l.hold()
	many := make([]messages.Event, 30)
	for i := range many {
		many[i] = messages.Event{Kind: fmt.Sprint("half ", i), Payload: payload("%q", strings.Repeat("x", 100_000))}
	}
	results, failed := l.queue(1), make(chan error, 1)
	l.taking(1, func() { _, err := l.Append(context.Background(), many); failed <- err })
	more := l.queue(1)
	version := l.Version()
	release()
	require.NoError(t, <-results)
	requireCode(t, <-failed, messages.CodeTooLarge)
	require.NoError(t, <-more)
	require.Equal(t, version+1, l.Version(), "one batch")
	require.Equal(t, []string{"queued 0", "queued 0"}, l.kinds())
	require.EqualValues(t, 2, l.Status().LastSeq)
	require.EqualValues(t, 2, l.Status().Events)
}

func TestTheLastSeqStaysAfterATransactionWithoutEvents(t *testing.T) {
	l := start(t, table)
	l.append("1")
	for _, write := range []func(tx *ledgeractor.Tx) error{
		func(tx *ledgeractor.Tx) error {
			_, err := tx.ExecContext(tx.Context(), "INSERT INTO notes (body) VALUES ('x')")
			return err
		},
		func(*ledgeractor.Tx) error { return nil },
		func(*ledgeractor.Tx) error { return errors.New("mine") },
	} {
		_ = l.Run(t.Context(), write) // the last one fails
		require.EqualValues(t, 1, l.Status().LastSeq)
		require.EqualValues(t, 1, l.Status().Events)
	}
	image, err := l.Cut(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, image.LastSeq)
}

// What one member of a batch has stored is not forgotten over another that stored nothing.
func TestTheLastSeqIsThatOfTheWholeBatch(t *testing.T) {
	l := start(t, table)
	before := []messages.Event{{Kind: "a", IdemKey: "a"}, {Kind: "b", IdemKey: "b"}}
	_, err := l.Append(t.Context(), before)
	require.NoError(t, err)
	for _, nothing := range []func(context.Context) error{
		func(ctx context.Context) error { _, err := l.Append(ctx, before); return err },
		func(ctx context.Context) error { _, err := l.Append(ctx, before[:1]); return err },
		func(ctx context.Context) error { return l.Run(ctx, func(*ledgeractor.Tx) error { return nil }) },
	} {
		last, version := l.Status().LastSeq, l.Version()
		release := l.hold()
		results, repeated := l.queue(1), make(chan error, 1)
		l.taking(1, func() { repeated <- nothing(context.Background()) })
		release()
		require.NoError(t, <-results)
		require.NoError(t, <-repeated)
		require.Equal(t, version+1, l.Version(), "one batch")
		require.Equal(t, last+1, l.Status().LastSeq)
		require.Equal(t, last+1, l.Status().Events)
	}
}

func TestACallerThatGaveUpBeforeItsTurnHasDoneNothing(t *testing.T) {
	l := start(t)
	release := l.hold()
	ctx, cancel := context.WithCancel(t.Context())
	results := make(chan error, 2)
	l.taking(2, func() { _, err := l.Append(ctx, event("never")); results <- err },
		func() { results <- l.Run(ctx, func(*ledgeractor.Tx) error { t.Error("ran"); return nil }) })
	cancel()
	for range 2 {
		err := <-results
		requireCode(t, err, messages.CodeCanceled)
		require.ErrorIs(t, err, context.Canceled)
	}
	release()
	l.append("next")
	require.Equal(t, []string{"next"}, l.kinds())

	late, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	_, err := l.Append(late, event("never"))
	requireCode(t, err, messages.CodeDeadlineExceeded)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestCodeThatHangsLosesItsTransactionAndTheActorGoesOn(t *testing.T) {
	l := start(t, table)
	ctx, cancel := context.WithCancel(t.Context())
	begun, gate, after := make(chan struct{}), make(chan struct{}), make(chan error, 3)
	result := make(chan error, 1)
	go func() {
		result <- l.Run(ctx, func(tx *ledgeractor.Tx) error {
			_, err := tx.ExecContext(tx.Context(), "INSERT INTO notes (body) VALUES ('lost')")
			require.NoError(t, err)
			rows, err := tx.QueryContext(context.Background(), "SELECT * FROM notes")
			require.NoError(t, err)
			close(begun)
			<-gate // deaf to its context
			_, err = tx.ExecContext(context.Background(), "INSERT INTO notes (body) VALUES ('later')")
			after <- err
			_, err = tx.Append(context.Background(), messages.Event{Kind: "later"})
			after <- err
			rows.Next()
			after <- rows.Err()
			panic("too late to matter")
		})
	}()
	<-begun
	cancel()
	err := <-result
	requireCode(t, err, messages.CodeUnknownOutcome, messages.CodeCanceled)
	require.ErrorIs(t, err, context.Canceled)
	l.append("next") // although that code still hangs
	// The same transaction again, while another one is current.
	err = l.Run(t.Context(), func(tx *ledgeractor.Tx) error {
		close(gate)
		for range 3 {
			requireCode(t, <-after, messages.CodeClosed)
		}
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, []string{"next"}, l.kinds())
	require.Zero(t, l.count("SELECT count(*) FROM notes"))
}

// deadlineOf is a context whose deadline passes when passed is closed.
type deadlineOf struct {
	context.Context
	passed chan struct{}
}

func (d *deadlineOf) Done() <-chan struct{} { return d.passed }

func (d *deadlineOf) Err() error {
	select {
	case <-d.passed:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func TestAStatementThatOutlivesItsDeadlineIsInterrupted(t *testing.T) {
	l := start(t, table)
	for name, statement := range map[string]string{"read": endless, "write": "INSERT INTO notes (body) " + endless} {
		ctx := &deadlineOf{t.Context(), make(chan struct{})}
		inside := make(chan error, 1)
		err := l.Run(ctx, func(tx *ledgeractor.Tx) error {
			_, err := tx.Append(tx.Context(), messages.Event{Kind: name})
			require.NoError(t, err)
			time.AfterFunc(50*time.Millisecond, func() { close(ctx.passed) }) // not before it runs, however long that takes
			_, err = tx.ExecContext(tx.Context(), statement)
			inside <- err
			return err
		})
		requireCode(t, err, messages.CodeUnknownOutcome, messages.CodeDeadlineExceeded)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		requireCode(t, <-inside, messages.CodeDeadlineExceeded)
		l.append("after " + name)
	}
	require.ElementsMatch(t, []string{"after read", "after write"}, l.kinds())
}

func TestAWriteThatMustBeInterruptedTakesItsBatchWithItHonestly(t *testing.T) {
	// Whether the statement has begun when its caller gives up cannot be seen from outside. If it has
	// not, it alone fails; then once more.
	for range 50 {
		if interruptedInABatch(t, start(t, table)) {
			return
		}
	}
	t.Fatal("no statement was running when its caller gave up")
}

func interruptedInABatch(t *testing.T, l *ledger) (interrupted bool) {
	release := l.hold()
	results := l.queue(3)
	ctx, cancel := context.WithCancel(t.Context())
	culprit := make(chan error, 1)
	inside := make(chan error, 1)
	running := make(chan struct{})
	l.taking(1, func() {
		culprit <- l.Run(ctx, func(tx *ledgeractor.Tx) error {
			close(running)
			_, err := tx.ExecContext(tx.Context(), "INSERT INTO notes (body) "+endless)
			inside <- err
			return nil // it swallows the error
		})
	})
	go release() // what held the actor is in the same batch
	<-running
	cancel()
	requireCode(t, <-culprit, messages.CodeUnknownOutcome, messages.CodeCanceled)
	var answers []error
	for range 3 {
		answers = append(answers, <-results)
	}
	require.Error(t, <-inside)
	if answers[0] == nil {
		require.Equal(t, []error{nil, nil, nil}, answers, "its neighbours are not hurt")
		require.Len(t, l.kinds(), 3)
		require.Zero(t, l.count("SELECT count(*) FROM notes"))
		return false
	}
	for _, err := range answers {
		requireCode(t, err, messages.CodeOverloaded)
		require.Positive(t, messages.AsError(err).RetryAfter)
	}
	require.EqualValues(t, 1, l.append("next").Seq, "nothing of the batch stands")
	require.Equal(t, []string{"next"}, l.kinds())
	return true
}

func TestBackpressureIsImmediate(t *testing.T) {
	l := start(t, limits(ledgeractor.Limits{MaxQueued: 3}))
	release := l.hold()
	results := l.queue(3)
	_, err := l.Append(t.Context(), event("too many"))
	requireCode(t, err, messages.CodeOverloaded)
	require.Positive(t, messages.AsError(err).RetryAfter)
	release()
	for range 3 {
		require.NoError(t, <-results)
	}
	l.append("room again")
}

func TestEveryQueuedRequestIsAnsweredWhenTheActorStops(t *testing.T) {
	l := start(t)
	release := l.hold()
	results := l.queue(10)
	l.ref.Stop()
	release()
	for range 10 {
		require.NoError(t, <-results, "what was taken is done")
	}
	<-l.ref.Done()
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"append":  func() error { _, err := l.Append(ctx, event("x")); return err },
		"run":     func() error { return l.Run(ctx, func(*ledgeractor.Tx) error { return nil }) },
		"query":   func() error { _, err := l.Query(ctx, "SELECT 1"); return err },
		"cut":     func() error { _, err := l.Cut(ctx); return err },
		"drain":   func() error { return l.Drain(ctx) },
		"undrain": func() error { return l.Undrain(ctx) },
	} {
		t.Run(name, func(t *testing.T) { requireCode(t, call(), messages.CodeClosed) })
	}
	require.False(t, l.Status().Open)
	require.Equal(t, []string{"ledger.db"}, l.files())
	next := start(t, at(l.path))
	require.Len(t, next.kinds(), 10)
}

func TestH5_DrainingFinishesWhatIsQueuedAndRefusesTheRest(t *testing.T) {
	l := start(t)
	release := l.hold()
	results := l.queue(5)
	drained := make(chan error, 1)
	go func() { drained <- l.Drain(context.Background()) }()
	release()
	require.NoError(t, <-drained)
	require.EqualValues(t, 5, l.Status().LastSeq, "what was queued is decided before the drain is over")
	for range 5 {
		require.NoError(t, <-results)
	}
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"append": func() error { _, err := l.Append(ctx, event("x")); return err },
		"run":    func() error { return l.Run(ctx, func(*ledgeractor.Tx) error { return nil }) },
		"query":  func() error { _, err := l.Query(ctx, "SELECT 1"); return err },
		"events": func() error { _, _, err := l.Events(ctx, 0, 0); return err },
	} {
		t.Run(name, func(t *testing.T) { requireCode(t, call(), messages.CodeDraining) })
	}
	image, err := l.Cut(ctx)
	require.NoError(t, err, "the final snapshot")
	require.EqualValues(t, 5, image.Events)
	require.NoError(t, l.Drain(ctx), "it may be repeated")
	require.True(t, l.Status().Draining)
	require.NoError(t, l.Undrain(ctx))
	require.EqualValues(t, 6, l.append("again").Seq)
}

func TestAPanicOfOurOwnAnswersEverybodyAndReopens(t *testing.T) {
	l := start(t)
	for n := int64(2); n <= checksOfAppend; n++ { // the first look is on the caller's goroutine
		kind := fmt.Sprint("check ", n)
		l.fence.at(n, func() { panic("a bug") })
		_, err := l.Append(t.Context(), event(kind))
		if n < checksOfAppend {
			requireCode(t, err, messages.CodeInternal)
		} else {
			requireCode(t, err, messages.CodeUnknownOutcome)
			require.ErrorIs(t, err, messages.ErrInternal)
		}
		if n != 4 { // in the commit hook it becomes a refusal
			require.Equal(t, ledgeractor.Restarted{}, <-l.events)
		}
		stored := int64(0)
		if n == checksOfAppend {
			stored = 1
		}
		require.Equal(t, stored, l.count("SELECT count(*) FROM events WHERE kind = ?", kind))
		l.append("works again")
		require.Equal(t, l.Status().Events, l.count("SELECT count(*) FROM events"))
	}
}

func TestNoCallWithoutADeadline(t *testing.T) {
	l := start(t, limits(ledgeractor.Limits{CallTimeout: 20 * time.Millisecond, QueryTimeout: 20 * time.Millisecond}))
	err := l.Run(context.Background(), func(tx *ledgeractor.Tx) error { <-tx.Context().Done(); return nil })
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = l.Query(context.Background(), endless)
	requireCode(t, err, messages.CodeDeadlineExceeded)
}
