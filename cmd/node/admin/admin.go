// Package admin holds the commands that work on the stores directly, without a node: they look at
// leases and durable copies, write a copy to a file, and forget a tenant.
//
// Each command is a struct with the flags of kong and a Run method. What they print goes to
// [Env.Stdout], as a table or, with --json, as one JSON document; progress goes to [Env.Stderr].
package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/leasehold/leasehold/cmd/node/config"
	"github.com/leasehold/leasehold/cmd/node/storeurl"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

// Env is what a command runs in.
type Env struct {
	Stdout, Stderr io.Writer
	Stdin          io.Reader
	Schemes        storeurl.Schemes
	// JSON is set by a command that was asked for JSON, so that its error is JSON too.
	JSON bool
}

// Common are the flags of every command here.
type Common struct {
	config.Stores `embed:""`
	JSON          bool `name:"json" help:"Print JSON." env:"-"`
	Progress      bool `help:"Show progress although the error output is no terminal." env:"-"`
}

// AfterApply is kong's hook: from here on, errors are JSON too if that was asked for.
func (c Common) AfterApply(env *Env) error {
	env.JSON = c.JSON
	return nil
}

func (c Common) leases(ctx context.Context, env *Env) (storeurl.LeaseStore, error) {
	where := c.WithDefaults().Leases
	if err := named("--leases", env.Schemes.CheckLeases(where)); err != nil {
		return nil, err
	}
	store, err := env.Schemes.OpenLeases(ctx, where, storeurl.Options{MustExist: true})
	return store, absent(err)
}

func (c Common) durable(ctx context.Context, env *Env) (storeurl.DurableStore, error) {
	where := c.WithDefaults().Durable
	if err := named("--durable", env.Schemes.CheckDurable(where)); err != nil {
		return nil, err
	}
	store, err := env.Schemes.OpenDurable(ctx, where, storeurl.Options{MustExist: true})
	return store, absent(err)
}

// named says which flag an error is about.
func named(flag string, err error) error {
	if err == nil {
		return nil
	}
	e := *messages.AsError(err)
	e.Message = flag + ": " + e.Message
	return &e
}

// absent says where else the store may be, if there is none: a tool that is pointed at the wrong place makes none.
func absent(err error) error {
	if !errors.Is(err, messages.ErrNotFound) {
		return err
	}
	e := *messages.AsError(err)
	e.Message += "; see --config, --state-root, --leases and --durable"
	return &e
}

// bound is both for stores that are of one deployment: what a node would not start on is refused.
func (c Common) bound(ctx context.Context, env *Env, f func(leases storeurl.LeaseStore, durable storeurl.DurableStore) error) error {
	return c.both(ctx, env, func(leases storeurl.LeaseStore, durable storeurl.DurableStore) error {
		if err := stores.CheckBound(ctx, leases, durable); err != nil {
			return err
		}
		return f(leases, durable)
	})
}

// both opens both stores and calls f with them.
func (c Common) both(ctx context.Context, env *Env, f func(leases storeurl.LeaseStore, durable storeurl.DurableStore) error) (err error) {
	leases, err := c.leases(ctx, env)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, leases.Close()) }()
	durable, err := c.durable(ctx, env)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, durable.Close()) }()
	return f(leases, durable)
}

// print writes a document as JSON, or what table writes in columns.
func (c Common) print(env *Env, document any, table func(w io.Writer)) error {
	if c.JSON {
		e := json.NewEncoder(env.Stdout)
		e.SetIndent("", "  ")
		return e.Encode(document)
	}
	w := tabwriter.NewWriter(env.Stdout, 0, 0, 2, ' ', 0)
	table(w)
	return w.Flush()
}

// verifier checks restored ledgers, as a node does.
type verifier struct{}

func (verifier) Verify(ctx context.Context, path string, key messages.Key) (events, lastSeq int64, err error) {
	sum, err := ledgeractor.Verify(ctx, path, key)
	return sum.Events, sum.LastSeq, err
}

// parsePosition reads "e3/snap-7", as messages.Position writes it.
func parsePosition(s string) (messages.Position, error) {
	var p messages.Position
	if _, err := fmt.Sscanf(s, "e%d/snap-%d", &p.Epoch, &p.Snapshot); err != nil || p.String() != s || p.Epoch == 0 || p.Snapshot == 0 {
		return messages.Position{}, &messages.Error{Code: messages.CodeInvalidArgument, Message: "a snapshot is named as in e3/snap-7"}
	}
	return p, nil
}
