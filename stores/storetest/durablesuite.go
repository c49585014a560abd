package storetest

import (
	"context"
	"crypto/rand"
	"testing"

	"github.com/leasehold/leasehold/stores"
)

// DurableStore runs the conformance suite of durable stores (contract, section F) against store, each
// check as a subtest named after it. Every check works below a prefix of its own, and removes what it
// put.
func DurableStore(t *testing.T, store stores.DurableStore) {
	for _, dc := range durableChecks {
		report(t, dc.id, dc.name, func(ctx context.Context, c *check) {
			dc.run(&objects{check: c, ctx: ctx, DurableStore: store, prefix: newPrefix()})
		})
	}
}

// CheckDurable runs the same suite outside a test, and returns what is wrong, in the order of the
// checks. It does not stop at the first; an empty result means that the store conforms.
func CheckDurable(ctx context.Context, store stores.DurableStore) []Failure {
	var failures []Failure
	for _, dc := range durableChecks {
		cctx, cancel := context.WithTimeout(ctx, suiteTimeout)
		failures = append(failures, guard(dc.id, dc.name, func(c *check) {
			dc.run(&objects{check: c, ctx: cctx, DurableStore: store, prefix: newPrefix()})
		})...)
		cancel()
	}
	return failures
}

type durableCheck struct {
	id, name string
	run      func(*objects)
}

// objects is what one check works with: the store, and a prefix that nobody else uses.
type objects struct {
	*check
	stores.DurableStore
	ctx    context.Context
	prefix string
}

// suiteBytes is what the suite reads at most, unless a check is about that.
const suiteBytes = 4 << 20

func newPrefix() string { return "storetest/" + rand.Text() + "/" }

// clean removes what a check put. A failure is none of the check's.
func (o *objects) clean() { _, _ = o.DeletePrefix(o.ctx, o.prefix) }

// put creates an object below the check's prefix, which must succeed.
func (o *objects) put(name string, data []byte) {
	created, err := o.PutIfAbsent(o.ctx, o.prefix+name, data)
	o.ok(err, "put of "+name)
	if !created {
		o.errorf("put of %s says that it is there already", name)
	}
}

// has notes an object below the check's prefix that does not have these bytes.
func (o *objects) has(name string, want []byte) {
	got, ok, err := o.Get(o.ctx, o.prefix+name, suiteBytes)
	o.ok(err, "get of "+name)
	switch {
	case !ok:
		o.errorf("%s is absent", name)
	case string(got) != string(want):
		o.errorf("%s has %d other bytes than the %d that were put", name, len(got), len(want))
	}
}

// absent notes an object below the check's prefix that should not be there.
func (o *objects) absent(name string) {
	got, ok, err := o.Get(o.ctx, o.prefix+name, suiteBytes)
	o.ok(err, "get of "+name)
	if ok || len(got) > 0 {
		o.errorf("%s is there (%t) with %d bytes; want it absent", name, ok, len(got))
	}
}
