//go:build !unix

package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/stdlib"
)

// lookedDead asks for a ping of a connection that has been idle for a while.
func lookedDead(_ context.Context, p stdlib.ShouldPingParams) bool { return p.IdleDuration > idlePing }
