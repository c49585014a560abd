package sim

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/leasehold/leasehold/drill/history"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/dir"
	"github.com/leasehold/leasehold/stores/sqlite"
)

// maxLog bounds the event log: the newest lines are kept.
const maxLog = 6000

// world is everything outside of the nodes: the real stores, and the observer who writes down what
// happens. The observer's clock is the bubble's.
type world struct {
	Options
	root     string
	begun    time.Time
	leases   *sqlite.Store
	durable  *dir.Store
	clock    *storeClock
	keys     []messages.Key
	nodes    []*node
	requests sync.WaitGroup // under way on the links

	mu      sync.Mutex
	history history.History
	extra   []history.Violation // what the history alone does not show
	rotten  map[string]bool     // images that are damaged now
	log     []string
	stats   Stats
	stopped bool                    // no process may be started
	lives   map[string]*life        // every process that ever ran, by owner
	used    map[messages.Key]uint64 // epochs that were used before the lease store lost its records
}

func newWorld(o Options, root string) (*world, error) {
	w := &world{Options: o.withApp(), root: root, begun: time.Now(), clock: &storeClock{}, rotten: map[string]bool{}, lives: map[string]*life{}, used: map[messages.Key]uint64{}, history: history.History{
		Trails: map[messages.Key][]messages.LeaseEntry{}, Objects: map[string]history.Object{}, Archive: true,
		Final: map[messages.Key]history.State{}, Clockless: map[string]time.Time{}, Excused: map[messages.Key]map[messages.Position]bool{},
		Slack: time.Microsecond, // manifests keep whole microseconds
	}}
	if o.Workload != nil {
		w.history.Foreign = func(id string) bool { return !strings.HasPrefix(id, idPrefix) }
	}
	var err error
	w.leases, err = sqlite.Open(context.Background(), sqlite.Config{Path: filepath.Join(root, "leases.db"), Now: w.clock.Now, NoSync: true})
	if err != nil {
		return nil, err
	}
	w.durable, err = dir.Open(context.Background(), dir.Config{Root: filepath.Join(root, "durable"), NoSync: true})
	if err != nil {
		return nil, errors.Join(err, w.leases.Close())
	}
	for i := range o.Tenants {
		id, err := messages.DeriveTenant(make([]byte, messages.MinKeyBytes), "https://sim.example", fmt.Sprint("tenant ", i))
		if err != nil {
			return nil, err
		}
		key := messages.Key{Org: "sim", Tenant: id}
		w.keys = append(w.keys, key)
		w.history.Excused[key] = map[messages.Position]bool{}
	}
	return w, nil
}

func (w *world) close() error { return errors.Join(w.leases.Close(), w.durable.Close()) }

// logf adds a line to the event log.
func (w *world) logf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logLocked(format, args...)
}

func (w *world) logLocked(format string, args ...any) {
	if len(w.log) >= maxLog {
		w.log = append(w.log[:0], w.log[maxLog/2:]...)
	}
	w.log = append(w.log, fmt.Sprintf("%9.3f ", time.Since(w.begun).Seconds())+fmt.Sprintf(format, args...))
}

// granted writes down what the lease store decided, at the moment that it did.
func (w *world) granted(op string, lease messages.Lease, err error) {
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if lease.Epoch > w.used[lease.Key] {
		w.history.Trails[lease.Key] = append(w.history.Trails[lease.Key], messages.LeaseEntry{
			Op: op, Owner: lease.Owner, Epoch: lease.Epoch, TTL: lease.TTL, End: lease.End, Floor: lease.Floor, At: time.Now(),
		})
	}
	if op != messages.OpRenew {
		w.logLocked("lease store: %s %s epoch %d to %s", op, shortKey(lease.Key), lease.Epoch, lease.Owner)
	}
	if op == messages.OpAcquire {
		w.stats.Grants++
	}
}

// landed writes down that an object is in the durable store.
func (w *world) landed(name string, data []byte, owner string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logLocked("durable store: %s by %s", short(name), owner)
	if before, ok := w.history.Objects[name]; ok {
		// A deleted object may come back, by a request of its own writer that is late. Above the
		// floor it must be the same one.
		if string(before.Data) != string(data) && !w.replaceableLocked(name) {
			w.failLocked("S4", name, "landed twice, with different bytes")
		}
		return
	}
	w.history.Objects[name] = history.Object{Data: append([]byte(nil), data...), By: owner, At: time.Now()}
}

// replaceableLocked reports whether other bytes may come to lie under a name: an image that no
// manifest promises was never part of anything, what was forgotten is gone for good, and what an
// operator removed makes room for a seal.
func (w *world) replaceableLocked(name string) bool {
	o, err := messages.ParseObject(name)
	if err != nil {
		return false
	}
	if o.Kind == messages.ObjectImage || w.history.Excused[o.Key][messages.Position{Epoch: o.Epoch, Snapshot: o.Number}] {
		return true
	}
	for _, e := range w.history.Trails[o.Key] {
		if e.Floor >= o.Epoch {
			return true
		}
	}
	return false
}

func (w *world) failLocked(rule, object, text string) {
	if o, err := messages.ParseObject(object); err == nil {
		w.failKeyLocked(rule, o.Key, short(object)+" "+text)
	}
}

func (w *world) failKeyLocked(rule string, key messages.Key, text string) {
	v := history.Violation{Rule: rule, Key: key, Text: text}
	w.extra = append(w.extra, v)
	w.logLocked("VIOLATION %s", v)
}

// fail writes down a violation that the history does not show.
func (w *world) fail(rule string, key messages.Key, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failKeyLocked(rule, key, fmt.Sprintf(format, args...))
}

// happened takes the nodes' lifecycle events.
func (w *world) happened(e messages.Lifecycle) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.At = time.Now()
	w.history.Lifecycle = append(w.history.Lifecycle, e)
	if e.Kind == messages.LifecycleRenewed {
		return
	}
	w.logLocked("%s %s e%d: %s %s %s %s", e.Owner, shortKey(e.Key), e.Epoch, e.Kind, e.Code, e.Reason, short(e.Object))
	switch e.Kind {
	case messages.LifecycleServing:
		w.stats.Opens++
	case messages.LifecycleSnapshot:
		w.stats.Snapshots++
	case messages.LifecyclePanic:
		w.failKeyLocked("D13", e.Key, "an actor panicked at "+e.Owner)
	case messages.LifecycleFilesLost:
		w.failKeyLocked("K5", e.Key, "the local ledger's files are not its own any more at "+e.Owner)
	case messages.LifecycleCorrupt:
		w.failKeyLocked("S2", e.Key, "the local ledger became corrupt at "+e.Owner)
	case messages.LifecycleFailed:
		// Whoever opens with a lease that is over may find that its successor has tidied up.
		if e.Code == messages.CodeCorrupt && !w.rotten[e.Object] && w.holdsLocked(e) {
			w.failKeyLocked("S5", e.Key, fmt.Sprintf("open of epoch %d failed as corrupt, and %s was never damaged", e.Epoch, short(e.Object)))
		}
	}
}

// holdsLocked reports whether nobody was granted the tenant after the owner of an event.
func (w *world) holdsLocked(e messages.Lifecycle) bool {
	var newest messages.LeaseEntry
	for _, x := range w.history.Trails[e.Key] {
		if x.Op == messages.OpAcquire {
			newest = x
		}
	}
	return newest.Owner == e.Owner && newest.Epoch == e.Epoch
}

func short(name string) string {
	if i := strings.Index(name, "/t-"); i >= 0 && len(name) > i+9 {
		return name[i+1:i+7] + name[min(len(name), i+35):]
	}
	return name
}

// idPrefix begins the IDs of the simulation's own events, as it does tenant ids.
const idPrefix = "t-"

func shortKey(k messages.Key) string { return string(k.Tenant[:6]) }
