package daemon

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
)

type closerFunc func() error

func (f closerFunc) Close() error { return f() }

func TestTheEndOfAProcessDoesNotWaitForAStoreThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate, late := make(chan struct{}), 0
		defer close(gate)
		closed := func() error { late++; return nil }
		hangs := closerFunc(func() error { <-gate; return nil })
		d := &daemon{closers: []io.Closer{closerFunc(closed), hangs, closerFunc(closed)}}
		begun := time.Now()
		err := d.close(false)
		require.ErrorIs(t, err, messages.ErrDeadlineExceeded)
		require.ErrorContains(t, err, "closerFunc")
		require.Equal(t, closeTimeout, time.Since(begun))
		require.Equal(t, 1, late, "what the one that hangs may still use stays open")
	})
}
