package ledgeractor

import (
	"context"
)

// openLedger opens the file, creates or checks our schema, and migrates. changes counts the
// transactions that it took. Nothing is acknowledged here, so the fence does not matter: if the lease
// is lost the file is thrown away.
func openLedger(ctx context.Context, cfg Config, corrupt func(error)) (g *guard, changes uint64, err error) {
	fail := newFailures(cfg.Key, cfg.Path)
	raw, err := openWriter(ctx, cfg)
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if err != nil {
			err = fail.typed(err)
			if g != nil {
				_ = g.close() // err says why
			} else {
				_ = closeQuietly(raw)
			}
			g = nil
		}
	}()
	objects, err := queryInt(ctx, raw, "SELECT count(*) FROM sqlite_schema")
	if err != nil {
		return nil, 0, err
	}
	if objects == 0 {
		if _, err := raw.ExecContext(ctx, "BEGIN IMMEDIATE", nil); err != nil {
			return nil, 0, err
		}
		err := createSchema(ctx, raw, cfg.Key)
		if err == nil {
			_, err = raw.ExecContext(ctx, "COMMIT", nil)
		}
		if err != nil {
			return nil, 0, err // closing rolls back
		}
		changes++
	}
	defect, err := checkSchema(ctx, raw, cfg.Key)
	if err != nil {
		return nil, 0, err
	}
	if defect != "" {
		return nil, 0, fail.broken(defect)
	}
	if g, err = newGuard(cfg, raw, corrupt); err != nil {
		return nil, 0, err
	}
	g.opening = true
	ran, err := g.migrate(ctx)
	g.opening = false
	return g, changes + uint64(ran), err
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
