package s3

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/leasehold/leasehold/messages"
)

// pageSize is how many records are read for one look at a page of keys.
const pageSize = 256

// Leases implements stores.LeaseLister: a LIST for each 256 keys, a GET for each, and one for each renewal log; three more for
// each lease that its log may have left out. A limit below 1 is CodeInvalidArgument.
func (l *Leases) Leases(ctx context.Context, after string, limit int) ([]messages.Lease, error) {
	return l.records(ctx, after, limit, limit, func(messages.Lease) bool { return true })
}

// Forgotten implements stores.LeaseLister. S3 cannot look into objects: it reads every record after the given key
// until it has found enough.
func (l *Leases) Forgotten(ctx context.Context, after string, limit int) ([]messages.Lease, error) {
	return l.records(ctx, after, limit, pageSize, func(lease messages.Lease) bool { return lease.Floor > 0 })
}

func (l *Leases) records(ctx context.Context, after string, limit, look int, wanted func(messages.Lease) bool) ([]messages.Lease, error) {
	if limit < 1 {
		return nil, &messages.Error{Code: messages.CodeInvalidArgument, Message: fmt.Sprintf("limit %d is below 1", limit)}
	}
	if err := l.begin(ctx); err != nil {
		return nil, err
	}
	var found []messages.Lease
	for len(found) < limit {
		var keys []messages.Key
		most := min(pageSize, look)
		err := l.list(ctx, kindLeases, "", after, most, func(name string) bool {
			after = name
			if key, err := messages.ParseKey(name); err == nil { // else it is none of ours
				keys = append(keys, key)
			}
			return len(keys) < most
		})
		if err != nil {
			return nil, l.failure(ctx, err, "", "the leases cannot be listed")
		}
		page, err := l.loadAll(ctx, keys)
		if err != nil {
			return nil, err
		}
		for i, s := range page {
			if s.rec == nil { // deleted by somebody since it was listed
				continue
			}
			if lease := s.lease(keys[i]); wanted(lease) && len(found) < limit {
				found = append(found, lease)
			}
		}
		if len(keys) < most {
			break
		}
	}
	return found, nil
}

// loadAll is load for many keys: each renewal log is read once, after the last record. What that log may have left out since its
// record was read is loaded by itself.
func (l *Leases) loadAll(ctx context.Context, keys []messages.Key) ([]sighting, error) {
	page, err := inParallel(ctx, keys, l.loadRecord)
	if err != nil {
		return nil, err
	}
	views := map[string]logView{}
	for _, s := range page {
		if s.renewable() {
			views[s.rec.last().Log] = logView{}
		}
	}
	names := slices.Collect(maps.Keys(views))
	read, err := inParallel(ctx, names, l.loadLog)
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		views[name] = read[i]
	}
	for i, s := range page {
		if s.renewable() {
			page[i] = l.completeWith(keys[i], s, views[s.rec.last().Log])
		}
	}
	var again []int
	for i, s := range page {
		if s.renewable() && s.leftOut() {
			again = append(again, i)
		}
	}
	looked, err := inParallel(ctx, again, func(ctx context.Context, i int) (sighting, error) { return l.load(ctx, keys[i]) })
	if err != nil {
		return nil, err
	}
	for i, at := range again {
		page[at] = looked[i]
	}
	return page, nil
}
