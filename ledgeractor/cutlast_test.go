package ledgeractor_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

// reasonFence is a fence that is closed for a reason.
type reasonFence struct {
	mu     sync.Mutex
	reason string
}

func (f *reasonFence) Check() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reason == "" {
		return nil
	}
	return messages.Fenced(testKey, testEpoch, f.reason)
}

func (f *reasonFence) set(reason string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reason = reason
}

func TestG1_OnlyALeaseThatIsOverByItselfHasALastImage(t *testing.T) {
	fence := &reasonFence{}
	l := start(t, func(c *ledgeractor.Config) { c.Fence = fence })
	for range 3 {
		l.append("acknowledged")
	}
	for reason, allowed := range map[string]bool{
		"":                            true, // a renewal came just then: it is a Cut like any other
		messages.ReasonExpiredLocally: true,
		messages.ReasonLeaseLost:      true,
		messages.ReasonReleased:       false,
		messages.ReasonSlotTaken:      false,
		messages.ReasonNotPinned:      false,
		"a reason of the future":      false,
	} {
		t.Run(reason, func(t *testing.T) {
			fence.set(reason)
			defer fence.set("")
			image, err := l.CutLast(t.Context())
			if !allowed {
				requireCode(t, err, messages.CodeFenced)
				require.Empty(t, image.Bytes)
				return
			}
			require.NoError(t, err)
			require.EqualValues(t, 3, image.LastSeq)
			require.Equal(t, l.Version(), image.Version)
			found, err := ledgeractor.Verify(t.Context(), write(t, image.Bytes), testKey)
			require.NoError(t, err)
			require.EqualValues(t, 3, found.Events)
			if reason != "" {
				_, err = l.Cut(t.Context())
				requireCode(t, err, messages.CodeFenced)
			}
		})
	}
}

// The fence may close at any moment of a write: what the last image holds is what was not refused.
func TestG2_TheLastImageHoldsNothingThatWasRefused(t *testing.T) {
	l := start(t)
	l.append("first")
	for n := int64(1); n <= checksOfAppend+1; n++ {
		before := l.Status().LastSeq
		l.fence.at(n, l.fence.close)
		_, err := l.Append(t.Context(), event("x"))
		l.fence.close()
		image, cutErr := l.CutLast(t.Context())
		require.NoError(t, cutErr)
		switch messages.CodeOf(err) {
		case messages.CodeFenced:
			require.Equal(t, before, image.LastSeq, "check %d", n)
		default: // acknowledged, or an unknown outcome that stands
			require.Equal(t, before+1, image.LastSeq, "check %d: %v", n, err)
		}
		l.fence.closed.Store(false)
	}
	// What is running, or waits, can not be committed any more, and is not waited for.
	running := make(chan struct{})
	free := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- l.Run(context.Background(), func(tx *ledgeractor.Tx) error {
			_, err := tx.Append(tx.Context(), messages.Event{Kind: "running"})
			close(running)
			<-free
			return err
		})
	}()
	<-running
	results := l.queue(20)
	before, version := l.Status().LastSeq, l.Version()
	l.fence.close()
	image, err := l.CutLast(t.Context())
	require.NoError(t, err)
	require.Equal(t, before, image.LastSeq)
	require.Equal(t, version, image.Version)
	close(free)
	requireFenced(t, <-done)
	for range 20 {
		requireFenced(t, <-results)
	}
	require.Equal(t, version, l.Version())
}

// TestK5_AVersionIsNeverAheadOfItsImage: whoever trusts the version takes a write for saved that the image does not hold. One
// append at a time: each is one version.
func TestK5_AVersionIsNeverAheadOfItsImage(t *testing.T) {
	l := start(t)
	begun := l.Version()
	ctx, stop := context.WithCancel(t.Context())
	var writer sync.WaitGroup
	writer.Go(func() {
		for ctx.Err() == nil {
			_, _ = l.Append(ctx, event("x")) // the last one is given up
		}
	})
	for range 150 {
		image, err := l.CutLast(t.Context())
		require.NoError(t, err)
		require.GreaterOrEqual(t, image.LastSeq, int64(image.Version-begun))
	}
	stop()
	writer.Wait()
}

func TestACorruptOrClosedLedgerHasNoLastImage(t *testing.T) {
	l := start(t)
	l.append("x")
	l.fence.close()
	l.stop()
	_, err := l.CutLast(t.Context())
	requireCode(t, err, messages.CodeClosed)
}
