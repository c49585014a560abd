package sqllease

import (
	"time"

	"github.com/leasehold/leasehold/messages"
)

// Limits is the part of a binding's Config that says nothing about its database.
type Limits struct {
	Migrate      bool
	KeepRenewals int
	MaxConns     int
	Timeout      time.Duration
}

// Defaults of the limits.
const (
	DefaultMaxConns     = 8
	DefaultTimeout      = 5 * time.Second
	DefaultKeepRenewals = 100
)

// KeepAllRenewals is a KeepRenewals that drops nothing.
const KeepAllRenewals = -1

// Complete checks the limits and returns them with their defaults. The error is CodeInvalidArgument.
func (l Limits) Complete() (Limits, error) {
	invalid := func(why string) error { return &messages.Error{Code: messages.CodeInvalidArgument, Message: why} }
	switch {
	case l.MaxConns < 0 || l.Timeout < 0 || l.KeepRenewals < KeepAllRenewals:
		return l, invalid("the limits of a lease store are not negative")
	case l.KeepRenewals != 0 && !l.Migrate:
		return l, invalid("KeepRenewals is written by Migrate")
	}
	if l.MaxConns == 0 {
		l.MaxConns = DefaultMaxConns
	}
	if l.Timeout == 0 {
		l.Timeout = DefaultTimeout
	}
	return l, nil
}
