// Package storeurl opens the stores that a configuration names as "<scheme>:<rest>", for example
// "sqlite:/var/lib/leasehold/leases.db" or "dir:/srv/copies".
//
// A [Schemes] value says which schemes a binary knows; [Embedded] has the two that need nothing but
// a file system, package engines the ones that reach servers too. There is no global registry: a
// program that stays with Embedded links no client of any server, and one may add bindings of its own.
package storeurl

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
	"github.com/leasehold/leasehold/stores/dir"
	"github.com/leasehold/leasehold/stores/sqlite"
)

// LeaseStore is a lease store that whoever opened it closes.
type LeaseStore interface {
	stores.LeaseStore
	io.Closer
}

// DurableStore is a durable store that whoever opened it closes.
type DurableStore interface {
	stores.DurableStore
	io.Closer
}

// Options are what a store is opened with beside its URL. The zero value is right for a node that finds
// its store set up.
type Options struct {
	// Migrate creates the store's schema if there is none; see Scheme.Migrates.
	Migrate bool
	// MustExist refuses a store that is not there, as CodeNotFound, instead of creating it.
	MustExist bool
	// Log takes what goes wrong on a store's connection apart from any operation; nil: nothing is logged.
	Log *slog.Logger
}

// Scheme is one kind of store. Its functions are given what follows the scheme and its colon.
type Scheme[S any] struct {
	// Open opens the store. The caller closes it.
	Open func(ctx context.Context, rest string, o Options) (S, error)
	// Check returns why a URL can never work, as CodeInvalidArgument and without its secrets. It reaches
	// for no store, but may read files that the URL names. nil: any rest will do.
	Check func(rest string) error
	// Migrates says that Open heeds Options.Migrate. The others are refused with it.
	Migrates bool
}

// Schemes are the kinds of stores that a binary can open, by scheme.
type Schemes struct {
	Leases  map[string]Scheme[LeaseStore]
	Durable map[string]Scheme[DurableStore]
}

// Embedded returns the schemes that need no server: "sqlite:PATH" for leases and "dir:PATH" for
// durable copies. The caller may add to the maps.
func Embedded() Schemes {
	return Schemes{
		Leases: map[string]Scheme[LeaseStore]{
			"sqlite": {Open: func(ctx context.Context, path string, o Options) (LeaseStore, error) {
				s, err := sqlite.Open(ctx, sqlite.Config{Path: path, MustExist: o.MustExist})
				if err != nil {
					return nil, err // and no interface that holds nothing
				}
				return s, nil
			}},
		},
		Durable: map[string]Scheme[DurableStore]{
			"dir": {Open: func(ctx context.Context, path string, o Options) (DurableStore, error) {
				s, err := dir.Open(ctx, dir.Config{Root: path, MustExist: o.MustExist})
				if err != nil {
					return nil, err
				}
				return s, nil
			}},
		},
	}
}

// OpenLeases opens a lease store. What CheckLeases or CheckMigrate refuses is CodeInvalidArgument; the
// other errors are those of the binding.
func (s Schemes) OpenLeases(ctx context.Context, storeURL string, o Options) (LeaseStore, error) {
	scheme, rest, err := find(s.Leases, "lease", storeURL)
	if err != nil {
		return nil, err
	}
	if o.Migrate && !scheme.Migrates {
		return nil, s.CheckMigrate(storeURL)
	}
	return scheme.Open(ctx, rest, o)
}

// OpenDurable opens a durable store, as OpenLeases does. No durable store has a schema to create.
func (s Schemes) OpenDurable(ctx context.Context, storeURL string, o Options) (DurableStore, error) {
	scheme, rest, err := find(s.Durable, "durable", storeURL)
	if err != nil {
		return nil, err
	}
	return scheme.Open(ctx, rest, o)
}

// CheckLeases returns the error that OpenLeases would have for a URL that can never work. It reaches for
// no store. CheckDurable does the same for durable stores.
func (s Schemes) CheckLeases(storeURL string) error {
	_, _, err := find(s.Leases, "lease", storeURL)
	return err
}

// CheckDurable returns the error that OpenDurable would have for a URL that can never work.
func (s Schemes) CheckDurable(storeURL string) error {
	_, _, err := find(s.Durable, "durable", storeURL)
	return err
}

// CheckMigrate returns why a lease store cannot be opened with Options.Migrate.
func (s Schemes) CheckMigrate(storeURL string) error {
	scheme, _, err := find(s.Leases, "lease", storeURL)
	if err == nil && !scheme.Migrates {
		name, _, _ := strings.Cut(storeURL, ":")
		err = invalid("a lease store of the scheme %q has no schema to create: it is ready as it is", name)
	}
	return err
}

func find[S any](known map[string]Scheme[S], kind, storeURL string) (scheme Scheme[S], rest string, err error) {
	name, rest, ok := strings.Cut(storeURL, ":")
	names := strings.Join(slices.Sorted(maps.Keys(known)), ", ")
	if !ok || !schemeName.MatchString(name) {
		return scheme, "", invalid("%q is not a %s store: it must be SCHEME:REST with one of the schemes %s", Redact(storeURL), kind, names)
	}
	scheme, ok = known[name]
	if !ok {
		return scheme, "", invalid("this binary has no %s store of the scheme %q; it has: %s", kind, name, names)
	}
	if rest == "" {
		return scheme, "", invalid("the %s store %q names no place after its scheme", kind, storeURL)
	}
	if scheme.Check != nil {
		err = scheme.Check(rest)
	}
	return scheme, rest, err
}

func invalid(format string, args ...any) error {
	return &messages.Error{Code: messages.CodeInvalidArgument, Message: fmt.Sprintf(format, args...)}
}
