package client

import (
	"log/slog"
	"time"
)

// Config says how patient a Client is. The zero value is complete.
type Config struct {
	// AttemptTimeout is how long a request that may be repeated waits for its answer before it is sent again;
	// each further attempt waits twice as long. 0: 2 s. Requests that must not be repeated wait to their deadline.
	AttemptTimeout time.Duration
	// LocateTimeout is how long any member may take to say who should be asked, before another one is, and for how long
	// there may be no way to an owner, while there is one to other members, before the members are asked for another
	// owner. 0: a quarter of AttemptTimeout.
	LocateTimeout time.Duration
	// HedgeAfter is the shortest time after which a request that is not answered is hedged: a member is asked who the
	// owner is, and the request is sent a second time, while the first one is still waited for. It is longer, up to two
	// and a half times as long, where one in twenty recent answers took longer. 0: 100 ms; below 0: nothing is hedged.
	HedgeAfter time.Duration
	// RequestTimeout is the deadline of a request whose context has none; 0: 30 s.
	RequestTimeout time.Duration
	// MaxOwners bounds how many tenants' owners are remembered; 0: 100,000 (about 20 MB).
	MaxOwners int
	// Now is the clock that the time left to a deadline is measured with; nil: time.Now.
	Now func() time.Time
	// Log takes what is repeated and why, at level Debug; nil: nothing is logged.
	Log *slog.Logger
}

const (
	defaultAttemptTimeout = 2 * time.Second
	defaultHedgeAfter     = 100 * time.Millisecond
	defaultRequestTimeout = 30 * time.Second
	defaultMaxOwners      = 100_000
)

// withDefaults checks a Config and fills in what it leaves open.
func (cfg Config) withDefaults() (Config, error) {
	if cfg.AttemptTimeout < 0 || cfg.LocateTimeout < 0 || cfg.RequestTimeout < 0 || cfg.MaxOwners < 0 {
		return cfg, invalid("the timeouts and limits of a client must not be negative")
	}
	if cfg.AttemptTimeout == 0 {
		cfg.AttemptTimeout = defaultAttemptTimeout
	}
	if cfg.LocateTimeout == 0 {
		cfg.LocateTimeout = cfg.AttemptTimeout / 4
	}
	if cfg.HedgeAfter == 0 {
		cfg.HedgeAfter = defaultHedgeAfter
	}
	cfg.HedgeAfter = min(cfg.HedgeAfter, time.Hour) // it is multiplied
	if cfg.RequestTimeout == 0 {
		cfg.RequestTimeout = defaultRequestTimeout
	}
	if cfg.MaxOwners == 0 {
		cfg.MaxOwners = defaultMaxOwners
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return cfg, nil
}
