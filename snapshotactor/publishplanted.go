package snapshotactor

import (
	"context"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/planted"
)

// plantedSettle does to the pending number what the planted faults of publishing do. done says that
// Settle is over for now.
func (p *Publisher) plantedSettle(ctx context.Context) (done bool, err error) {
	n := p.pending
	if p.Planted.Has(planted.ManifestBeforeImage) {
		if err := p.land(ctx, &n.promises); err != nil {
			return true, err
		}
	}
	const doubts = 1<<planted.ImageTimeoutOK | 1<<planted.CleanupHalfPublished | 1<<planted.RecutNumber | 1<<planted.SnapshotGap
	if p.Planted&doubts == 0 || n.imageThere {
		return false, nil
	}
	var created bool
	err = p.once(ctx, n.image.name, func(ctx context.Context) (err error) {
		created, err = p.Store.PutIfAbsent(ctx, n.image.name, n.image.data)
		return err
	})
	if err == nil {
		n.imageThere = created
		return false, nil // "already there" is left to the protocol
	}
	// The answer is lost. The protocol reads back; the faults do not.
	switch {
	case p.Planted.Has(planted.ImageTimeoutOK):
		n.imageThere = true
		return false, nil
	case p.Planted.Has(planted.CleanupHalfPublished):
		_ = p.once(ctx, n.image.name, func(ctx context.Context) error {
			_, err := p.Store.Delete(ctx, n.image.name)
			return err
		})
		return false, nil
	case p.Planted.Has(planted.SnapshotGap):
		p.published.Add(1)
	}
	p.pending = nil
	p.doubtful.Store(false)
	return true, &messages.Error{Code: messages.CodeUnavailable, Object: n.image.name, Message: "the snapshot is given up (planted fault)", Err: err}
}
