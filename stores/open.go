package stores

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// Opener opens a store. Unless it may create, a store that is not there is CodeNotFound, which names the place as its Object, and stays so.
type Opener[S any] func(ctx context.Context, create bool) (S, error)

// Open opens a lease store and a durable store for a node, and creates what is not there, but only once nothing speaks against it: the other
// one answers, and has not been served with another store. So a mistake in the configuration leaves no new store behind. The
// errors are those of the openers, and CodeDeploymentMismatch. Open closes nothing: see Discard.
func Open[L LeaseStore, D DurableStore](ctx context.Context, openLeases Opener[L], openDurable Opener[D]) (leases L, durable D, err error) {
	leases, noLeases := openLeases(ctx, false)
	if noLeases != nil && !errors.Is(noLeases, messages.ErrNotFound) {
		return leases, durable, noLeases
	}
	durable, noDurable := openDurable(ctx, false)
	if noDurable != nil && !errors.Is(noDurable, messages.ErrNotFound) {
		return leases, durable, noDurable
	}
	switch {
	case noLeases != nil && noDurable == nil:
		leases, noLeases, err = again(ctx, openLeases, noLeases, func() error { return servedWithout(ctx, noLeases, durable) })
	case noLeases == nil && noDurable != nil:
		durable, noDurable, err = again(ctx, openDurable, noDurable, func() error { return servedAlone(ctx, leases, noDurable) })
	}
	if err != nil {
		return leases, durable, err
	}
	if noDurable != nil {
		if durable, err = openDurable(ctx, true); err != nil {
			return leases, durable, err
		}
	}
	if noLeases != nil {
		leases, err = openLeases(ctx, true)
	}
	return leases, durable, err
}

// How often a store that should be there is looked for again, and how long after: another first start may have made it since, and a server
// may learn late what another one has made.
const (
	looks     = 5
	lookPause = 200 * time.Millisecond
)

// again opens a store that was not there, if the other one was served with one. missing stays if it was not.
func again[S any](ctx context.Context, open Opener[S], missing error, served func() error) (store S, _, err error) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for range looks {
		if err = served(); !errors.Is(err, messages.ErrDeploymentMismatch) {
			return store, missing, err
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return store, missing, err
		}
		found, openErr := open(ctx, false)
		if !errors.Is(openErr, messages.ErrNotFound) {
			return found, nil, openErr
		}
		pause.Reset(lookPause)
	}
	return store, missing, err
}

// servedWithout returns an error if a durable store was served with a lease store, and there is none.
func servedWithout(ctx context.Context, noLeases error, durable DurableStore) error {
	d := deployment{durable: durable, noLeases: messages.AsError(noLeases).Object}
	identity, err := d.object(ctx, DeploymentObject)
	if err != nil {
		return err
	}
	if identity != "" {
		return d.mismatch(identity, "", "")
	}
	why, err := d.objects(ctx)
	if err == nil && why != "" {
		err = d.mismatch("", "", why)
	}
	return err
}

// servedAlone returns an error if a lease store was served with a durable store, and there is none.
func servedAlone(ctx context.Context, leases LeaseStore, noDurable error) (err error) {
	d := deployment{leases: leases, noDurable: messages.AsError(noDurable).Object}
	identity := ""
	if keeper, ok := leases.(DeploymentKeeper); ok {
		if identity, err = keeper.Deployment(ctx); err != nil {
			return err
		}
	}
	why, err := d.records(ctx)
	if err == nil && (identity != "" || why != "") {
		err = d.mismatch("", identity, why)
	}
	return err
}

// Discarder is what a store implements whose Open may create it.
type Discarder interface {
	// Discard closes the store. If this Open has created it, nobody else uses it, and nothing was stored in it, it removes it
	// again. After Close it does nothing.
	Discard() error
}

// Discard ends a start that was refused: it closes what was opened for it, the last first, and removes what was created for it and not used.
// It takes what has no Close for something that is the caller's.
func Discard(opened ...any) error {
	var errs []error
	for _, s := range slices.Backward(opened) {
		switch s := s.(type) {
		case Discarder:
			errs = append(errs, s.Discard())
		case io.Closer:
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}
