package snapshotactor

import (
	"context"
	"slices"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/planted"
)

// Grant is what the lease store granted: the epoch, and what the SAME record says of the tenant.
type Grant struct {
	Epoch uint64
	Floor uint64
	// Marked says that the same record knows of copies of the tenant: messages.Lease.HasLineage.
	Marked bool
	// Stale is for the planted fault list-before-grant: a listing (see ListNames) that was taken
	// before the lease was granted. Without that fault it is ignored.
	Stale []string
}

// Restored says what an epoch begins with.
type Restored struct {
	// From is the state that was restored; the zero Position is the empty ledger.
	From messages.Position
	// Manifest is that of the restored snapshot; nil if Empty.
	Manifest *messages.Manifest
	// Base is the pin of the epoch, as it is in the store.
	Base messages.Base
	// Empty says that there was nothing to restore; Config.File does not exist.
	Empty bool
	// Head is the pinned epoch that was followed; 0: none.
	Head uint64
	// Events and LastSeq are what the Verifier found in the restored file.
	Events  int64
	LastSeq int64
	// Began says what the epochs of the restored ledger, and this one, began with.
	Began []messages.Began
}

// ListNames lists the names of all of a tenant's objects.
func ListNames(ctx context.Context, cfg Config) ([]string, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return caller{cfg}.list(ctx)
}

// Open restores a tenant for an epoch that was just granted, and pins what it restored (steps 2 to 7
// of docs/protocol.md, "Open"). It lists only now, follows the pins, fetches and verifies the image,
// seals what a paused predecessor could still take, and puts the base of the epoch. When it returns
// without an error, Config.File is the verified ledger, or does not exist if there was nothing to
// restore, and the base is in the store. When it returns an error, nothing may be served.
//
// The caller renews the lease meanwhile: a large restore takes longer than a TTL. Open may be called
// once for a grant; whatever it returned, the next attempt needs a new epoch.
//
// CodeLineageAhead and CodeLineageMissing say that the grant and the durable store contradict each other; what that means, the lease
// record says, which must be read again. Ahead: Object is a base slot at or above the epoch that this attempt did not fill, and Owner
// whose pin is in it ("" for a seal); or there are copies, or a floor, that the grant does not know of. Missing: there are none.
//
// The other errors: CodeCorrupt (S5; Object names what failed), CodeTooLarge (an image over Config.MaxImageBytes), CodeUnavailable (the store did not answer within ctx
// and Config.Attempts, or has no room; then Cause is CodeStorage), CodeStorage (the local disk), CodeInvalidArgument (the configuration, or an
// object that needs a newer version).
func Open(ctx context.Context, cfg Config, grant Grant) (Restored, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return Restored{}, err
	}
	switch {
	case cfg.Owner == "" || cfg.Verifier == nil || cfg.File == "":
		return Restored{}, invalid(cfg.Key, "to open, an owner, a verifier and a file are needed")
	case grant.Epoch == 0 || grant.Floor >= grant.Epoch:
		return Restored{}, invalid(cfg.Key, "a granted epoch is above 0 and above its floor")
	}
	o := opening{caller: caller{cfg}, grant: grant, nonce: cfg.Nonce()}
	for wait, rounds := cfg.Backoff, 1; ; rounds++ {
		restored, again, err := o.round(ctx)
		switch {
		case err != nil || !again:
			return restored, err
		case rounds >= maxRounds:
			return Restored{}, &messages.Error{Code: messages.CodeUnavailable, Key: cfg.Key.String(), Epoch: grant.Epoch,
				Message: "every listing was out of date by the time it was sealed"}
		case !sleep(ctx, wait):
			return Restored{}, ended(ctx, cfg.Key.Prefix())
		}
		wait = min(2*wait, cfg.MaxBackoff)
		cfg.Log.Info("an object of a fenced predecessor landed during an open; lists again", "key", cfg.Key.String(), "epoch", grant.Epoch)
	}
}

// maxRounds is how often an open lists anew because a slot that it was about to seal was taken in the
// meantime. A paused predecessor can do that once or twice; one whose clock stands still, and which
// is faster than this restore, again and again.
const maxRounds = 64

// opening is one attempt to open at one epoch.
type opening struct {
	caller
	grant Grant
	nonce string
	// ready is what Config.File holds already, so that a second listing with the same outcome
	// restores nothing twice.
	ready    *restoredFile
	prepared bool // Config.Prepare has done its work
}

// round goes through the steps once. again says that somebody else's object was met in a slot that
// was to be sealed.
func (o *opening) round(ctx context.Context) (out Restored, again bool, err error) {
	var names []string
	if stale := o.stale(); stale != nil {
		names = stale
	} else if names, err = o.list(ctx); err != nil {
		return out, false, err
	}
	l := readListing(o.Key, names)
	p, err := makePlan(ctx, l, o.small, o.grant.Epoch, o.grant.Floor, o.Planted)
	if err != nil {
		return out, false, err
	}
	if err := o.contradiction(l, p); err != nil {
		return out, false, err
	}
	if o.Planted.Has(planted.PinBeforeVerify) {
		if _, err := o.pin(ctx, p); err != nil {
			return out, false, err
		}
	}
	if ctx.Err() != nil { // nobody waits for this open any more: the local files are those of the next one
		return out, false, ended(ctx, o.Key.Prefix())
	}
	if o.Prepare != nil && !o.prepared {
		if err := o.Prepare(ctx); err != nil {
			return out, false, err
		}
		o.prepared = true
	}
	if err := o.restore(ctx, p.manifest); err != nil {
		return out, false, err
	}
	if o.Rehearse != nil {
		if err := o.Rehearse(ctx); err != nil {
			return out, false, err
		}
	}
	if met, err := o.seal(ctx, p.seals); err != nil || met {
		return out, met, err
	}
	base, err := o.pin(ctx, p)
	if err != nil {
		return out, false, err
	}
	out = Restored{From: p.from(), Manifest: p.manifest, Base: base, Empty: p.manifest == nil, Head: p.head,
		Events: o.ready.events, LastSeq: o.ready.lastSeq}
	if p.manifest != nil {
		out.Began = p.manifest.Began
	}
	out.Began = messages.Begin(out.Began, o.grant.Epoch, out.LastSeq)
	return out, false, nil
}

// contradiction says what the lease record and the durable store cannot both be right about. A tenant is served, and snapshots
// of it are taken, only after its lineage was marked in the record, and a marked lineage has a pin until it is forgotten. A floor is
// in the record before it is in the durable store.
func (o *opening) contradiction(l listing, p plan) error {
	contrary := func(code messages.Code, object, message string) error {
		return &messages.Error{Code: code, Key: o.Key.String(), Epoch: o.grant.Epoch, Object: object, Message: message}
	}
	switch {
	case o.Planted != 0: // a planted fault is to be found by what it does
		return nil
	case l.floor() > o.grant.Floor:
		return contrary(messages.CodeLineageAhead, o.Key.FloorName(l.floor()), "the durable store keeps a floor above that of the lease record")
	case o.grant.Marked && p.head == 0:
		return contrary(messages.CodeLineageMissing, "", "the lease record says that the tenant has copies, and the durable store has none")
	case !o.grant.Marked && p.manifest != nil:
		return contrary(messages.CodeLineageAhead, o.Key.ManifestName(p.manifest.Epoch, p.manifest.Snapshot),
			"the durable store holds copies that the lease record does not know of")
	}
	return nil
}

func (o *opening) stale() []string {
	if o.Planted.Has(planted.ListBeforeGrant) && o.grant.Stale != nil {
		return slices.Clone(o.grant.Stale)
	}
	return nil
}

// seal fills the slots that a paused predecessor would use next, so that it meets "already there" and
// fences itself, without any clock (S12). met says that a real object is in one of them: the
// predecessor was faster, and the plan is out of date.
func (o *opening) seal(ctx context.Context, slots []messages.Object) (met bool, err error) {
	if o.Planted.Has(planted.NoSeal) {
		return false, nil
	}
	for _, slot := range slots {
		if slot.Kind != messages.ObjectBase && o.Planted.Has(planted.SealBaseSlotsOnly) {
			continue
		}
		data, err := encodeSeal(slot, o.grant.Epoch)
		if err != nil {
			return false, err
		}
		put := upload{name: slot.Name(), data: data}
		theirs, err := put.land(ctx, o.caller)
		if err != nil {
			return false, err
		}
		// Another owner's seal serves as well: one that sealed, and died before its pin.
		if theirs == nil || isSeal(slot, theirs) {
			continue
		}
		// The planted fault goes on with its old listing, whatever it meets.
		if o.stale() == nil {
			return true, nil
		}
	}
	return false, nil
}

// pin puts the base of the epoch. The nonce makes its bytes those of this attempt, so that reading
// it back after a lost answer tells "mine" from "somebody else's".
func (o *opening) pin(ctx context.Context, p plan) (messages.Base, error) {
	if p.own != nil {
		return *p.own, nil
	}
	base := messages.Base{Kind: messages.KindBase, Version: messages.LineageVersion, Key: o.Key.String(), Epoch: o.grant.Epoch,
		From: p.from(), Owner: o.Owner, Nonce: o.nonce}
	data, err := encode(base)
	if err != nil {
		return base, err
	}
	slot := messages.Object{Key: o.Key, Epoch: o.grant.Epoch, Kind: messages.ObjectBase}
	put := upload{name: slot.Name(), data: data}
	theirs, err := put.land(ctx, o.caller)
	if err != nil {
		return base, err
	}
	if theirs != nil && !o.Planted.Has(planted.PinAnswerGuessed) {
		return base, ahead(slot, theirs, o.grant.Epoch)
	}
	return base, nil
}
