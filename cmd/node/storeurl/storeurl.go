// Package storeurl opens the stores that a configuration names as "<scheme>:<rest>", for example
// "sqlite:/var/lib/leasehold/leases.db" or "dir:/srv/copies".
//
// A [Schemes] value says which schemes a binary knows; [Embedded] has the two that need nothing but
// a file system. A binary that links other bindings adds theirs to the maps: there is no global
// registry, so a program links exactly the clients that it names.
package storeurl

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/url"
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

// Schemes are the kinds of stores that a binary can open. Both maps go from a scheme to a function
// that is given what follows the scheme and its colon.
type Schemes struct {
	Leases  map[string]func(ctx context.Context, rest string) (LeaseStore, error)
	Durable map[string]func(ctx context.Context, rest string) (DurableStore, error)
}

// Embedded returns the schemes that need no server: "sqlite:PATH" for leases and "dir:PATH" for
// durable copies. The caller may add to the maps.
func Embedded() Schemes {
	return Schemes{
		Leases: map[string]func(context.Context, string) (LeaseStore, error){
			"sqlite": func(ctx context.Context, path string) (LeaseStore, error) {
				return sqlite.Open(ctx, sqlite.Config{Path: path})
			},
		},
		Durable: map[string]func(context.Context, string) (DurableStore, error){
			"dir": func(ctx context.Context, path string) (DurableStore, error) {
				return dir.Open(ctx, dir.Config{Root: path})
			},
		},
	}
}

// OpenLeases opens a lease store. An unknown scheme is CodeInvalidArgument; the other errors are
// those of the binding.
func (s Schemes) OpenLeases(ctx context.Context, storeURL string) (LeaseStore, error) {
	open, rest, err := find(s.Leases, "lease", storeURL)
	if err != nil {
		return nil, err
	}
	return open(ctx, rest)
}

// OpenDurable opens a durable store, as OpenLeases does.
func (s Schemes) OpenDurable(ctx context.Context, storeURL string) (DurableStore, error) {
	open, rest, err := find(s.Durable, "durable", storeURL)
	if err != nil {
		return nil, err
	}
	return open(ctx, rest)
}

// CheckLeases returns the error that OpenLeases would have for a URL that can never work. It touches
// nothing. CheckDurable does the same for durable stores.
func (s Schemes) CheckLeases(storeURL string) error {
	_, _, err := find(s.Leases, "lease", storeURL)
	return err
}

// CheckDurable returns the error that OpenDurable would have for a URL that can never work.
func (s Schemes) CheckDurable(storeURL string) error {
	_, _, err := find(s.Durable, "durable", storeURL)
	return err
}

func find[F any](known map[string]F, kind, storeURL string) (open F, rest string, err error) {
	scheme, rest, ok := strings.Cut(storeURL, ":")
	names := strings.Join(slices.Sorted(maps.Keys(known)), ", ")
	if !ok {
		return open, "", invalid("%q is not a %s store: it must be SCHEME:REST with one of the schemes %s", Redact(storeURL), kind, names)
	}
	open, ok = known[scheme]
	if !ok {
		return open, "", invalid("this binary has no %s store of the scheme %q; it has: %s", kind, scheme, names)
	}
	if rest == "" {
		return open, "", invalid("the %s store %q names no place after its scheme", kind, storeURL)
	}
	return open, rest, nil
}

func invalid(format string, args ...any) error {
	return &messages.Error{Code: messages.CodeInvalidArgument, Message: fmt.Sprintf(format, args...)}
}

// secretParams are the query parameters that drivers take credentials in.
var secretParams = []string{"password", "pass", "passwd", "secret", "token", "key", "access_key", "secret_key", "sslpassword"}

// Redact returns a store's URL without the secrets that a URL can carry: the password before an @,
// and query parameters that are named like one.
func Redact(storeURL string) string {
	if !strings.ContainsAny(storeURL, "@?") {
		return storeURL
	}
	u, err := url.Parse(storeURL)
	if err != nil {
		scheme, _, _ := strings.Cut(storeURL, ":")
		return scheme + ":xxxxx"
	}
	if u.User == nil && strings.Contains(storeURL, "@") {
		// A form of its own, such as user:password@tcp(host)/name.
		scheme, rest, _ := strings.Cut(storeURL, ":")
		_, host, _ := strings.Cut(rest, "@")
		return scheme + ":xxxxx@" + host
	}
	values := u.Query()
	for name := range values {
		if slices.Contains(secretParams, strings.ToLower(name)) {
			values.Set(name, "xxxxx")
		}
	}
	u.RawQuery = values.Encode()
	return u.Redacted()
}
