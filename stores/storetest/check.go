package storetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime/debug"
	"testing"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// Failure is one thing that a check of a conformance suite found wrong.
type Failure struct {
	// Check is the number of the check in the contract, such as "B.6" or "F3"; Name is the check in words.
	Check string
	Name  string
	// Detail says what was expected and what came.
	Detail string
}

// String returns "B.6 (takeover): …".
func (f Failure) String() string { return fmt.Sprintf("%s (%s): %s", f.Check, f.Name, f.Detail) }

// Clock lets time pass for the store that is checked: ManualClock for one that runs on a fake clock,
// RealTime for one that runs on its own.
type Clock interface {
	// Pass returns when d has passed on the store's clock, as nearly as it can tell, or with the error of ctx.
	Pass(ctx context.Context, d time.Duration) error
}

// suiteTimeout bounds one check, so that a store that hangs fails it.
const suiteTimeout = 30 * time.Second

// check collects what one check finds.
type check struct {
	id, name string
	failures []Failure
}

func (c *check) errorf(format string, args ...any) {
	c.failures = append(c.failures, Failure{Check: c.id, Name: c.name, Detail: fmt.Sprintf(format, args...)})
}

// stop ends a check whose further steps would make no sense.
type stop struct{}

func (c *check) fatalf(format string, args ...any) {
	c.errorf(format, args...)
	panic(stop{})
}

// ok ends the check if a step that must succeed did not.
func (c *check) ok(err error, step string) {
	if err != nil {
		c.fatalf("%s: %v", step, err)
	}
}

// code notes an error that does not have the code it should.
func (c *check) code(err error, want messages.Code, step string) {
	switch {
	case err == nil:
		c.errorf("%s: want %s, but it succeeded", step, want)
	case messages.CodeOf(err) != want:
		c.errorf("%s: want %s, got %v", step, want, err)
	case !errors.Is(err, &messages.Error{Code: want}):
		c.errorf("%s: errors.Is does not find %s in %v", step, want, err)
	}
}

// guard runs one check. A panic of the store is a failure of the check and not the end of the suite.
func guard(id, name string, run func(*check)) []Failure {
	c := &check{id: id, name: name}
	func() {
		defer func() {
			switch r := recover(); r.(type) {
			case nil, stop:
			default:
				c.errorf("panic: %v\n%s", r, debug.Stack())
			}
		}()
		run(c)
	}()
	return c.failures
}

// report runs one check as a subtest that is named after it.
func report(t *testing.T, id, name string, run func(context.Context, *check)) {
	t.Run(id+"_"+name, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), suiteTimeout)
		defer cancel()
		for _, f := range guard(id, name, func(c *check) { run(ctx, c) }) {
			t.Errorf("%s", f)
		}
	})
}

// NewKey returns the key of a tenant that nobody has used: suites share a server without meeting.
func NewKey() messages.Key {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails (crypto/rand)
	return messages.Key{Org: "storetest", Tenant: messages.TenantID(fmt.Sprintf("t-%x", id))}
}
