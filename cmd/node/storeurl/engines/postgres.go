package engines

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/cmd/node/storeurl"
	"github.com/leasehold/leasehold/stores/postgres"
)

var postgresScheme = storeurl.Scheme[storeurl.LeaseStore]{
	Migrates: true,
	Check: func(rest string) error {
		_, err := postgresConfig(rest)
		return err
	},
	Open: func(ctx context.Context, rest string, o storeurl.Options) (storeurl.LeaseStore, error) {
		cfg, err := postgresConfig(rest)
		if err != nil {
			return nil, err
		}
		if cfg.Migrate = o.Migrate; !o.Migrate {
			cfg.KeepRenewals = 0 // it is the schema owner's to say
		}
		store, err := postgres.Open(ctx, cfg)
		if err != nil {
			return nil, err
		}
		return store, nil
	},
}

func postgresConfig(rest string) (postgres.Config, error) {
	a := parse("postgres", rest)
	cfg := postgres.Config{Schema: a.take("schema"), MaxConns: a.number("max_conns", 1), KeepRenewals: a.number("keep_renewals", postgres.KeepAllRenewals)}
	if user, password := a.password(); password != "" {
		a.User = url.UserPassword(user, password)
	}
	if strings.Trim(a.Path, "/") == "" && !a.params.Has("dbname") {
		a.fail("the URL of a postgres store names no database: postgres://USER@HOST/DATABASE")
	}
	if a.err != nil {
		return cfg, a.err
	}
	a.RawQuery = a.params.Encode()
	cfg.DSN = a.String()
	if _, err := pgx.ParseConfig(cfg.DSN); err != nil {
		// Its text has the URL in it, without the password but with all else; the reason is enough.
		reason := err.Error()
		if inner := errors.Unwrap(err); inner != nil {
			reason = inner.Error()
		}
		if password, _ := a.User.Password(); password != "" && strings.Contains(reason, password) {
			reason = "its parts do not fit together"
		}
		a.fail("the URL of a postgres store cannot be used: %s", reason)
	}
	return cfg, a.err
}
