package snapshotactor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"sync/atomic"
	"time"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/planted"
)

// Publisher puts the snapshots of one epoch: image, then manifest, numbered from 1 without a gap.
// A number is cut once; while its fate is in doubt it is pending, and it is settled with the same
// bytes before the next one is cut. Nothing is ever cleaned up.
//
// Publish and Settle are for one goroutine at a time; Pending and Published are safe for concurrent
// use.
type Publisher struct {
	caller
	base      messages.Base
	began     []messages.Began
	published atomic.Uint64
	doubtful  atomic.Bool
	pending   *pending
	taken     error // a slot of this epoch holds somebody else's bytes: final
}

// pending is a number that was cut and is not published yet.
type pending struct {
	manifest        messages.Manifest
	image, promises upload
	imageThere      bool
}

// NewPublisher returns the publisher of an epoch that was just opened. Nothing of the
// epoch is published yet. Errors: CodeInvalidArgument, CodeInvalidID.
func NewPublisher(cfg Config, restored Restored) (*Publisher, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if cfg.Owner == "" || cfg.Fence == nil {
		return nil, invalid(cfg.Key, "to publish, an owner and a fence are needed")
	}
	base := restored.Base
	if base.Kind != messages.KindBase || base.Key != cfg.Key.String() || base.Epoch == 0 {
		return nil, invalid(cfg.Key, "to publish, the pin of the epoch is needed")
	}
	return &Publisher{caller: caller{cfg}, base: base, began: restored.Began}, nil
}

// Pending reports whether a number is in doubt. Settle decides it.
func (p *Publisher) Pending() bool { return p.doubtful.Load() }

// Published returns the highest number that is published, whether it counts or not; 0: none.
func (p *Publisher) Published() uint64 { return p.published.Load() }

// Publish settles the pending number, if there is one, and then publishes image under the next.
//
// It returns the manifest and nil when the snapshot is in the store and the fence is open after that:
// only then it counts as taken. The errors:
//
//   - the fence's own error (CodeFenced), with the manifest: published, but it does not count
//   - CodeFenced with ReasonSlotTaken: somebody else's bytes are in a slot of this epoch (S4). The
//     fence was closed for good, and every later call returns the same
//   - CodeUnavailable: no answer within ctx and Config.Attempts (Cause CodeStorage: no room). If Pending,
//     the number may still be published: finish it with Settle
//   - CodeInvalidArgument: an image without bytes
func (p *Publisher) Publish(ctx context.Context, image Image) (messages.Manifest, error) {
	if len(image.Bytes) == 0 || image.Events < 0 || image.LastSeq < 0 {
		return messages.Manifest{}, invalid(p.Key, "an image has bytes, and counts that are not negative")
	}
	if p.Pending() {
		if m, err := p.Settle(ctx); m.Snapshot == 0 {
			return messages.Manifest{}, err
		}
	}
	if p.taken != nil {
		return messages.Manifest{}, p.taken
	}
	next, err := p.cut(image)
	if err != nil {
		return messages.Manifest{}, err
	}
	p.pending = next
	p.doubtful.Store(true)
	return p.Settle(ctx)
}

// cut gives image the next number.
func (p *Publisher) cut(image Image) (*pending, error) {
	hash := sha256.Sum256(image.Bytes)
	at := image.CutAt
	if at.IsZero() {
		at = p.Now()
	}
	m := messages.Manifest{Kind: messages.KindManifest, Version: messages.LineageVersion, Key: p.Key.String(),
		Epoch: p.base.Epoch, Snapshot: p.published.Load() + 1, Size: int64(len(image.Bytes)), SHA256: hex.EncodeToString(hash[:]),
		Events: image.Events, LastSeq: image.LastSeq, Base: p.base.From, Began: p.began, Time: at.UTC().Round(time.Microsecond), Owner: p.Owner, Nonce: p.Nonce()}
	data, err := encode(m)
	if err != nil {
		return nil, err
	}
	return &pending{
		manifest: m,
		image:    upload{name: p.Key.ImageName(m.Epoch, m.Snapshot), data: image.Bytes},
		promises: upload{name: p.Key.ManifestName(m.Epoch, m.Snapshot), data: data},
	}, nil
}

// Settle finishes the pending number with the same bytes, and returns as Publish does. Without a
// pending number it returns a zero Manifest and nil, or the error of a slot that was taken.
func (p *Publisher) Settle(ctx context.Context) (messages.Manifest, error) {
	switch {
	case p.taken != nil:
		return messages.Manifest{}, p.taken
	case p.pending == nil:
		return messages.Manifest{}, nil
	}
	n := p.pending
	if p.Planted != 0 {
		if done, err := p.plantedSettle(ctx); done {
			return messages.Manifest{}, err
		}
	}
	// The manifest promises the image: it goes out only when the image is known to be there.
	if !n.imageThere {
		if err := p.land(ctx, &n.image); err != nil {
			return messages.Manifest{}, err
		}
		n.imageThere = true
		n.image.data = nil // an image may be large, and the manifest may take long to settle
	}
	if err := p.land(ctx, &n.promises); err != nil {
		return messages.Manifest{}, err
	}
	p.pending = nil
	p.published.Store(n.manifest.Snapshot)
	p.doubtful.Store(false)
	// Whoever took over before this instant may have listed without it.
	if err := p.Fence.Check(); err != nil && !p.Planted.Has(planted.ConfirmWithoutFence) {
		return n.manifest, err
	}
	return n.manifest, nil
}

// land carries an upload through; other bytes in its slot are the end of this epoch (S4).
func (p *Publisher) land(ctx context.Context, u *upload) error {
	theirs, err := u.land(ctx, p.caller)
	if err != nil {
		return err
	}
	if theirs == nil || p.Planted.Has(planted.IgnoreSlotTaken) {
		return nil
	}
	p.Fence.Close(messages.ReasonSlotTaken)
	fenced := messages.Fenced(p.Key, p.base.Epoch, messages.ReasonSlotTaken)
	fenced.Object = u.name
	p.taken = fenced
	p.pending = nil
	p.doubtful.Store(false)
	return fenced
}
