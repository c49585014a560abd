package ledgeractor

import (
	"context"
)

// openLedger opens the file, creates our schema, or checks and completes it, and migrates. changes counts the
// transactions that it took. Nothing is acknowledged here, so the fence does not matter: if the lease
// is lost the file is thrown away.
func openLedger(ctx context.Context, cfg Config, corrupt func(error)) (*guard, uint64, error) {
	g, changes, err := openSchema(ctx, cfg, corrupt)
	if err != nil {
		return nil, 0, err
	}
	ran, err := g.migrate(ctx)
	g.opening = false
	if err != nil {
		err = g.fail.typed(err)
		_ = g.close() // err says why
		return nil, 0, err
	}
	return g, changes + uint64(ran), nil
}

// openSchema is openLedger without the migrations. The guard lets everything pass until its opening ends.
func openSchema(ctx context.Context, cfg Config, corrupt func(error)) (g *guard, changes uint64, err error) {
	fail := newFailures(cfg.Key, cfg.Path)
	raw, err := openWriter(ctx, cfg)
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if err != nil {
			err = fail.typed(err)
			_ = closeQuietly(raw)
			g = nil
		}
	}()
	objects, err := queryInt(ctx, raw, "SELECT count(*) FROM sqlite_schema")
	if err != nil {
		return nil, 0, err
	}
	if objects == 0 {
		if err := createSchema(ctx, raw, cfg.Key, -1); err != nil {
			return nil, 0, err
		}
		changes++
	}
	version, defect, err := checkSchema(ctx, raw, cfg.Key)
	if err != nil {
		return nil, 0, err
	}
	if defect != "" {
		return nil, 0, fail.broken(defect)
	}
	if version < schemaVersion { // an earlier version of Leasehold made it
		if err := createSchema(ctx, raw, cfg.Key, version); err != nil {
			return nil, 0, err
		}
		changes++
	}
	if g, err = newGuard(cfg, raw, corrupt); err != nil {
		return nil, 0, err
	}
	g.opening = true
	return g, changes, nil
}

// counts returns the number of events and the last seq.
func (g *guard) counts(ctx context.Context) (events, last int64, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.own = true
	defer func() { g.own = false }()
	events, last, err = countEvents(ctx, g.raw)
	return events, last, g.failed(err)
}
