package actors

import (
	"context"
	"errors"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/planted"
)

// servesAfterLostRelease is the planted fault serve-after-lost-release: a handoff whose release was not
// answered goes back to serving, as if the release had not been sent. The lease child has opened its
// fence again.
func (t *tenant) servesAfterLostRelease(r *release, err error) bool {
	if !t.node.cfg.Planted.Has(planted.ServeAfterLostRelease) || !errors.Is(err, messages.ErrUnavailable) || t.handle == nil || r.flushed == nil {
		return false
	}
	t.setState(StateDraining) // else what comes of the drain means nothing
	d := &drain{reply: r.reply, over: make(chan struct{}), stop: func() {}, failed: err}
	t.drain = d
	handle := t.handle
	t.self.Go(func(ctx context.Context) any { return undrained{d, insist(ctx, handle.Undrain)} })
	t.self.After(t.node.untilRenewal(), renewTick{t.gen})
	t.self.After(t.node.cfg.SnapshotEvery, snapshotTick{t.gen})
	return true
}
