package engines

import (
	"context"
	"io"
	"maps"
	"time"

	"github.com/leasehold/leasehold/cmd/node/storeurl"
)

// openTimeout bounds how long a store may take to be opened, where its binding has no bound of its own.
const openTimeout = 15 * time.Second

// Schemes returns the embedded schemes and those of this package. The caller may add to the maps. The
// functions in it are safe for concurrent use.
func Schemes() storeurl.Schemes {
	s := storeurl.Embedded()
	maps.Copy(s.Leases, map[string]storeurl.Scheme[storeurl.LeaseStore]{
		"postgres":   postgresScheme,
		"postgresql": postgresScheme,
		"mysql":      mysqlScheme,
		"nats":       {Open: openNATSLeases, Check: checkNATS(leasesKind)},
		"s3":         {Open: openS3Leases, Check: checkS3},
	})
	maps.Copy(s.Durable, map[string]storeurl.Scheme[storeurl.DurableStore]{
		"nats": {Open: openNATSObjects, Check: checkNATS(objectsKind)},
		"s3":   {Open: openS3Objects, Check: checkS3},
	})
	return s
}

// closing closes, with a store, what it was made of.
type closing struct{ close func() error }

func (c closing) Close() error { return c.close() }

var _ io.Closer = closing{}

// within runs an open with openTimeout.
func within[S any](ctx context.Context, open func(context.Context) (S, error)) (S, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	return open(ctx)
}
