package nats

import (
	"context"
	"time"
)

// SweepOlder sweeps what is older than age, where a Config would keep everything for an hour at least.
func (s *Objects) SweepOlder(ctx context.Context, age time.Duration) (int, error) {
	return s.sweep(ctx, "", age)
}
