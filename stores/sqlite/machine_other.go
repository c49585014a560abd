//go:build !linux

package sqlite

import "time"

// machineClock knows no clock here that all processes share and nobody can set.
func machineClock(time.Time) (id string, mono func() time.Duration, ok bool) { return "", nil, false }
