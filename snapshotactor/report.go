package snapshotactor

import (
	"context"
	"math"
	"slices"

	"github.com/leasehold/leasehold/messages"
)

// Report describes a tenant's durable copies, for people and for tools.
type Report struct {
	Key messages.Key `json:"key"`
	// Epochs are ascending.
	Epochs []EpochReport `json:"epochs"`
	// Newest is the state that the next owner will begin with; zero: the empty ledger.
	Newest messages.Position `json:"newest"`
	// Strays are names below the tenant's prefix that are no objects of a lineage.
	Strays []string `json:"strays,omitempty"`
	// Problem says why the lineage cannot be followed to its end; "": it can.
	Problem string `json:"problem,omitempty"`
}

// EpochReport describes one epoch's objects.
type EpochReport struct {
	Epoch uint64 `json:"epoch"`
	// Live says that the epoch belongs to the lineage that the next owner will restore.
	Live bool `json:"live"`
	// Base is the pin; nil: there is none. Sealed says that its slot holds a seal.
	Base   *messages.Base `json:"base,omitempty"`
	Sealed bool           `json:"sealed,omitempty"`
	// Snapshots are ascending.
	Snapshots []SnapshotReport `json:"snapshots,omitempty"`
	// Increments are the numbers listed, seals included.
	Increments []uint64 `json:"increments,omitempty"`
	// Problems names small objects that do not decode.
	Problems []string `json:"problems,omitempty"`
}

// SnapshotReport describes one snapshot number of an epoch.
type SnapshotReport struct {
	Snapshot uint64 `json:"snapshot"`
	// Live says that the snapshot is a state of the live lineage.
	Live bool `json:"live"`
	// Manifest is nil if there is none (a snapshot that was never finished). Sealed says that its slot
	// holds a seal.
	Manifest *messages.Manifest `json:"manifest,omitempty"`
	Sealed   bool               `json:"sealed,omitempty"`
	// Image says that the image is listed.
	Image bool `json:"image"`
}

// Lineage reports what the durable store holds of a tenant, and which of it is the live lineage. Objects
// at or below floor (0 if unknown: what was forgotten may then be called live) never are. It reads the
// small objects only. A damaged object is part of the report; the errors are those of the store.
func Lineage(ctx context.Context, store Store, key messages.Key, floor uint64) (Report, error) {
	cfg, err := Config{Store: store, Key: key}.withDefaults()
	if err != nil {
		return Report{}, err
	}
	c := caller{cfg}
	names, err := c.list(ctx)
	if err != nil {
		return Report{}, err
	}
	l := readListing(key, names)
	report := Report{Key: key, Strays: l.strays}
	live, problem := c.live(ctx, l, floor, &report)
	if storeFailed(problem) {
		return Report{}, problem
	}
	if problem != nil {
		report.Problem = problem.Error()
	}
	for _, e := range l.ascending() {
		epoch, err := c.epochReport(ctx, l, e, live)
		if err != nil {
			return Report{}, err
		}
		report.Epochs = append(report.Epochs, epoch)
	}
	return report, nil
}

// storeFailed tells "the store did not answer" from "what it answered is damaged".
func storeFailed(err error) bool {
	switch messages.CodeOf(err) {
	case "", messages.CodeCorrupt, messages.CodeInvalidArgument:
		return false
	}
	return true
}

// live returns how far each epoch of the live lineage belongs to it.
func (c caller) live(ctx context.Context, l listing, floor uint64, report *Report) (map[uint64]uint64, error) {
	live := map[uint64]uint64{}
	top, err := liveHead(ctx, l, c.small, floor)
	if err != nil || top == 0 {
		return live, err
	}
	links, err := chain(ctx, l, c.small, top, floor)
	for _, link := range links {
		live[link.epoch] = link.upTo
	}
	if err != nil {
		return live, err
	}
	p, err := c.next(ctx, l, floor)
	report.Newest = p.from()
	return live, err
}

// next is the plan of an owner that would open now.
func (c caller) next(ctx context.Context, l listing, floor uint64) (plan, error) {
	top := floor
	if epochs := l.ascending(); len(epochs) > 0 {
		top = max(top, epochs[len(epochs)-1])
	}
	if top == math.MaxUint64 {
		return plan{}, corrupt(c.Key.EpochPrefix(top), "no epoch can follow it", nil)
	}
	return makePlan(ctx, l, c.small, top+1, floor, 0)
}

func (c caller) epochReport(ctx context.Context, l listing, e uint64, live map[uint64]uint64) (EpochReport, error) {
	objects := l.at(e)
	upTo, isLive := live[e]
	report := EpochReport{Epoch: e, Live: isLive, Increments: objects.increments}
	note := func(err error) error {
		if storeFailed(err) {
			return err
		}
		report.Problems = append(report.Problems, err.Error())
		return nil
	}
	if objects.base {
		b, sealed, err := smallReader(c.small).base(ctx, l, e)
		switch {
		case err != nil:
			if err := note(err); err != nil {
				return report, err
			}
		case sealed:
			report.Sealed = true
		default:
			report.Base = &b
		}
	}
	numbers := append(slices.Clone(objects.images), objects.manifests...)
	slices.Sort(numbers)
	for _, n := range slices.Compact(numbers) {
		s := SnapshotReport{Snapshot: n}
		_, s.Image = slices.BinarySearch(objects.images, n)
		if l.hasManifest(e, n) {
			m, sealed, err := smallReader(c.small).manifest(ctx, l, e, n)
			switch {
			case err != nil:
				if err := note(err); err != nil {
					return report, err
				}
			case sealed:
				s.Sealed = true
			default:
				s.Manifest = &m
				s.Live = isLive && n <= upTo
			}
		}
		report.Snapshots = append(report.Snapshots, s)
	}
	return report, nil
}
