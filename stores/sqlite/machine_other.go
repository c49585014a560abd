//go:build !linux

package sqlite

import "time"

// machineTime knows no clock here that all processes share and nobody can set.
func machineTime(time.Time) (boot string, mono time.Duration, ok bool) { return "", 0, false }
