package sim

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
	"github.com/leasehold/leasehold/stores/sqlite"
)

// reset takes the lease store's records away in the middle of the run, with all nodes down. What is
// granted from then on at an epoch that was used before must be refused loudly, and never served. After a while the
// operator has seen it, and reseeds the records.
func (w *world) reset(ctx context.Context) {
	if !rest(ctx, w.Duration/2) {
		return
	}
	w.allDown(func() error {
		if err := w.newLeases(); err != nil {
			return err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.logLocked("the lease store has lost its records")
		for _, key := range w.keys {
			used := uint64(0)
			for name := range w.history.Objects {
				if o, err := messages.ParseObject(name); err == nil && o.Key == key {
					used = max(used, o.Epoch)
				}
			}
			w.used[key] = used
			w.history.Trails[key] = upTo(w.history.Trails[key], used)
		}
		return nil
	})
	rest(ctx, w.Duration/8)
	w.allDown(func() error {
		raised, err := stores.Reseed(context.Background(), w.leases, w.durable, stores.ReseedOptions{Live: true})
		for _, lease := range raised {
			w.granted(messages.OpReseed, lease, nil)
		}
		return err
	})
}

// allDown does something to the stores while no node runs.
func (w *world) allDown(do func() error) {
	w.mu.Lock()
	w.stopped = true
	w.mu.Unlock()
	for _, n := range w.nodes {
		n.crash()
	}
	time.Sleep(maxLanding)
	if err := do(); err != nil {
		w.fail("D13", messages.Key{}, "while all nodes were down: %v", err)
	}
	w.mu.Lock()
	w.stopped = false
	w.mu.Unlock()
	for _, n := range w.nodes {
		n.mustStart()
	}
}

func upTo(trail []messages.LeaseEntry, epoch uint64) []messages.LeaseEntry {
	var out []messages.LeaseEntry
	for _, e := range trail {
		if e.Epoch <= epoch {
			out = append(out, e)
		}
	}
	return out
}

// newLeases puts an empty lease store in the place of the old one. Nobody uses it just now.
func (w *world) newLeases() error {
	path := filepath.Join(w.root, "leases.db")
	err := w.leases.Close()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if gone := os.Remove(path + suffix); gone != nil && !errors.Is(gone, os.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	if err != nil {
		return err
	}
	w.leases, err = sqlite.Open(context.Background(), sqlite.Config{Path: path, Now: w.clock.Now, NoSync: true})
	return err
}
