package ledgeractor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

// A key that comes again with another kind, subject or payload is an error, whichever way the event is appended; with the same ones it
// is a duplicate, whatever its time, and however its payload is written.
func TestQ4_W2_AKeyThatReturnsWithAnotherEvent(t *testing.T) {
	l := start(t)
	first := messages.Event{Kind: "trip.logged", SubjectID: "trip-1", IdemKey: "secret-key", Payload: payload(`{"km":12,"via":["a","ü"]}`), Time: new(time.Unix(1, 0))}
	appended, err := l.Append(t.Context(), []messages.Event{first})
	require.NoError(t, err)
	change := func(f func(e *messages.Event)) messages.Event {
		e := first
		f(&e)
		return e
	}
	same := map[string]messages.Event{
		"the same":       first,
		"a later time":   change(func(e *messages.Event) { e.Time = nil }),
		"another actor":  change(func(e *messages.Event) { e.Actor, e.RunID = "anna", "run-2" }),
		"other spaces":   change(func(e *messages.Event) { e.Payload = payload(`{ "km" : 12 , "via":["a", "ü"]}`) }),
		"another order":  change(func(e *messages.Event) { e.Payload = payload(`{"via":["a","ü"],"km":12}`) }),
		"other escapes":  change(func(e *messages.Event) { e.Payload = payload(`{"km":12,"via":["\u0061","\u00fc"]}`) }),
		"another number": change(func(e *messages.Event) { e.Payload = payload(`{"km":1.2e1,"via":["a","ü"]}`) }),
	}
	other := map[string]messages.Event{
		"another kind":      change(func(e *messages.Event) { e.Kind = "trip.ended" }),
		"another subject":   change(func(e *messages.Event) { e.SubjectID = "trip-2" }),
		"no subject":        change(func(e *messages.Event) { e.SubjectID = "" }),
		"another payload":   change(func(e *messages.Event) { e.Payload = payload(`{"km":13,"via":["a","ü"]}`) }),
		"one member more":   change(func(e *messages.Event) { e.Payload = payload(`{"km":12,"via":["a","ü"],"x":null}`) }),
		"a number as text":  change(func(e *messages.Event) { e.Payload = payload(`{"km":"12","via":["a","ü"]}`) }),
		"another list":      change(func(e *messages.Event) { e.Payload = payload(`{"km":12,"via":["ü","a"]}`) }),
		"no payload at all": change(func(e *messages.Event) { e.Payload = nil }),
	}
	version := l.Version()
	ways := map[string]func(e messages.Event) (messages.Appended, error){
		"alone": func(e messages.Event) (messages.Appended, error) {
			out, err := l.Append(t.Context(), []messages.Event{e})
			if err != nil {
				return messages.Appended{}, err
			}
			return out[0], nil
		},
		"with others": func(e messages.Event) (messages.Appended, error) {
			out, err := l.Append(t.Context(), []messages.Event{e, e})
			if err != nil {
				return messages.Appended{}, err
			}
			return out[1], nil
		},
		"in a transaction": func(e messages.Event) (out messages.Appended, err error) {
			err = l.Run(t.Context(), func(tx *ledgeractor.Tx) error {
				out, err = tx.Append(tx.Context(), e)
				return err
			})
			return out, err
		},
	}
	for way, add := range ways {
		for name, e := range same {
			out, err := add(e)
			require.NoError(t, err, "%s, %s", name, way)
			require.Equal(t, messages.Appended{Seq: appended[0].Seq, Duplicate: true}, out, "%s, %s", name, way)
		}
		for name, e := range other {
			_, err := add(e)
			require.ErrorIs(t, err, messages.ErrIdempotencyConflict, "%s, %s", name, way)
			require.NotContains(t, err.Error(), "secret-key")
		}
	}
	require.Equal(t, version, l.Version(), "nothing was stored")

	// All or none, and in one append too.
	_, err = l.Append(t.Context(), []messages.Event{{Kind: "new"}, {Kind: "a", IdemKey: "k"}, {Kind: "b", IdemKey: "k"}})
	requireCode(t, err, messages.CodeIdempotencyConflict)
	require.Equal(t, []string{"trip.logged"}, l.kinds())

	// Two that meet in one commit: one is stored, the other is told.
	release := l.hold()
	results := make(chan error, 2)
	for _, kind := range []string{"x", "y"} {
		go func() { _, err := l.Append(t.Context(), keyed(kind, "both")); results <- err }()
	}
	require.Eventually(t, func() bool { return l.Status().Queued == 2 }, 10*time.Second, time.Millisecond)
	release()
	refused := 0
	for range 2 {
		if err := <-results; err != nil {
			requireCode(t, err, messages.CodeIdempotencyConflict)
			refused++
		}
	}
	require.Equal(t, 1, refused)
	require.Len(t, l.kinds(), 2)
}
