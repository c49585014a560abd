package ledgeractor

import (
	"context"
	"sync/atomic"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/mailbox"
)

// Opened is reported to the parent once the ledger was opened and migrated, or could not be. With
// an Err every request is answered with it.
type Opened struct {
	Events  int64 // rows in events
	LastSeq int64
	Needs   int // see Needs
	Err     error
}

// Corrupt is reported to the parent, once, when the database turned out to be corrupt. From then on
// every request is answered with CodeCorrupt.
type Corrupt struct {
	Err error
}

// Restarted is reported to the parent when our own code panicked: the open transaction was rolled
// back, its callers were answered, and the file was opened again.
type Restarted struct{}

// Actor owns the SQLite connection of one ledger. It is a mailbox.Actor and blocks on its disk,
// never on the network.
type Actor struct {
	cfg    Config
	report func(any)
	shared *shared

	self     *mailbox.Self
	guard    *guard
	batch    *batch
	batches  uint64
	watching bool   // a sweepReaders is on its way
	pausing  uint64 // the pause of reads that goes on, for a checkpoint; 0: none does
	pauses   uint64
	corrupt  bool  // Corrupt was reported
	lost     error // FilesLost was reported
}

// shared is what the actor and its handles have in common.
type shared struct {
	queued   atomic.Int64 // requests in the mailbox
	taken    atomic.Uint64
	version  atomic.Uint64
	events   atomic.Int64
	lastSeq  atomic.Int64
	draining atomic.Bool
	closed   atomic.Bool
	broken   atomic.Pointer[error] // why it is unusable
	opened   chan struct{}         // closed when Started is through
	readers  *readers
	tail     tail
	files    files
}

// committed notes that an event with this seq is committed. Readers may know before the actor has come to say so.
func (s *shared) committed(seq int64) {
	for {
		last := s.lastSeq.Load()
		if seq <= last || s.lastSeq.CompareAndSwap(last, seq) {
			return
		}
	}
}

// breakWith makes the ledger unusable; the first reason stays.
func (s *shared) breakWith(err error) { s.broken.CompareAndSwap(nil, &err) }

var (
	_ mailbox.Actor    = (*Actor)(nil)
	_ mailbox.Panicker = (*Actor)(nil)
)

// New returns an actor that is not started yet. report is called on the actor's own goroutine with
// Opened, Corrupt, FilesLost or Restarted; it must not block (send it to the parent's mailbox). An invalid
// configuration is reported as Opened.Err. A nil report is allowed.
func New(cfg Config, report func(any)) *Actor {
	invalid := cfg.Validate()
	if report == nil {
		report = func(any) {}
	}
	cfg = cfg.withDefaults()
	a := &Actor{cfg: cfg, report: report, shared: &shared{opened: make(chan struct{})}}
	a.shared.files.path = cfg.Path
	a.shared.readers = newReaders(cfg, a.shared.files.look)
	if invalid != nil {
		a.shared.breakWith(invalid)
	}
	return a
}

// Handle returns the way to the actor, given its address. It may be used before the ledger is open:
// requests wait.
func (a *Actor) Handle(ref *mailbox.Ref) *Handle {
	return &Handle{cfg: a.cfg, shared: a.shared, ref: ref}
}

// Started opens and migrates the ledger and reports Opened.
func (a *Actor) Started(self *mailbox.Self) {
	a.self = self
	defer close(a.shared.opened)
	ref := self.Ref()
	a.shared.readers.attach(func(msg any) { ref.Send(msg) }, a.onCorrupt(ref))
	if broken := a.shared.broken.Load(); broken != nil {
		a.report(Opened{Err: *broken})
		return
	}
	needs, err := a.open(self.Context())
	if err != nil {
		a.shared.breakWith(err)
		logFailedOpen(a.cfg, err)
		a.report(Opened{Err: err})
		return
	}
	a.report(Opened{Events: a.shared.events.Load(), LastSeq: a.shared.lastSeq.Load(), Needs: needs})
}

// logFailedOpen tells whoever runs the node what the caller is not told in full.
func logFailedOpen(cfg Config, err error) {
	cfg.Log.Error("cannot open ledger", "key", cfg.Key.String(), "epoch", cfg.Epoch, "code", messages.CodeOf(err), "error", detailOf(err))
}

// onCorrupt returns what marks the ledger as corrupt, from any goroutine.
func (a *Actor) onCorrupt(ref *mailbox.Ref) func(error) {
	shared := a.shared
	return func(err error) {
		shared.breakWith(err)
		ref.Send(corrupted{err})
	}
}

func (a *Actor) open(ctx context.Context) (needs int, err error) {
	g, changes, err := openLedger(ctx, a.cfg, a.onCorrupt(a.self.Ref()))
	if err != nil {
		return 0, err
	}
	events, last, err := g.counts(ctx)
	if err == nil {
		needs, err = g.needs(ctx)
	}
	if err != nil {
		_ = g.close() // err says why
		return 0, err
	}
	if err := a.shared.files.look(); err != nil {
		_ = g.close() // err says why
		return 0, g.fail.storage("open the ledger", err)
	}
	a.guard = g
	a.shared.version.Add(changes)
	a.shared.events.Store(events)
	a.shared.lastSeq.Store(last)
	return needs, nil
}

// Receive handles one request, or a flush.
func (a *Actor) Receive(self *mailbox.Self, msg any) {
	switch m := msg.(type) {
	case *request:
		a.shared.queued.Add(-1)
		a.write(m)
	case flush:
		if a.batch != nil && a.batch.id == m.batch {
			a.flush()
		}
	case *drainAsk:
		if !m.begin() {
			return
		}
		a.flush()
		a.shared.draining.Store(m.on)
		m.answer(nil)
	case *cutAsk:
		a.cut(m)
	case corrupted:
		a.onCorrupted(m.err)
	case readersGone:
		a.readersAreGone()
	case evictReaders:
		a.evictReaders(m)
	case lookAtFiles:
		if a.guard != nil {
			_ = a.filesLost() // which reports it
		}
	case watchReaders:
		if !a.watching {
			a.watching = true
			self.After(a.cfg.Limits.ReaderIdle, sweepReaders{})
		}
	case sweepReaders:
		a.watching = a.shared.readers.sweep() > 0
		if a.watching {
			self.After(a.cfg.Limits.ReaderIdle, sweepReaders{})
		}
	}
}

func (a *Actor) cut(m *cutAsk) {
	if !m.begin() {
		return
	}
	a.flush()
	err := a.refusal(false)
	if m.last && overByItself(err) {
		err = nil
	}
	if err == nil && a.filesLost() != nil {
		m.salvaged = true
		m.image, err = a.salvage(m.ctx)
	} else if err == nil {
		m.image.Version = a.shared.version.Load()
		err = m.pin()
	}
	if err == nil {
		a.shared.tail.cut()
	}
	m.answer(err)
}

func (a *Actor) onCorrupted(err error) {
	a.abort(err)
	if a.corrupt {
		return
	}
	a.corrupt = true
	a.cfg.Log.Error("ledger is corrupt", "key", a.cfg.Key.String(), "epoch", a.cfg.Epoch, "error", detailOf(err))
	a.report(Corrupt{Err: err})
}

// Refuse answers a request that cannot be handled any more.
func (a *Actor) Refuse(_ *mailbox.Self, msg any) {
	if _, ok := msg.(*request); ok {
		a.shared.queued.Add(-1)
	}
	if m, ok := msg.(asker); ok {
		m.asked().answer(closedError(a.cfg.Key))
	}
}

// Stopping commits the open batch and closes the file. Reads in flight are interrupted, and waited
// for: SQLite removes the -wal file by its name when the last connection closes, and that name may
// be the next ledger's by then.
func (a *Actor) Stopping(*mailbox.Self) {
	a.flush()
	a.shared.closed.Store(true)
	a.shared.readers.close()
	if a.guard == nil {
		return
	}
	if err := a.guard.close(); err != nil {
		a.cfg.Log.Warn("closing ledger", "key", a.cfg.Key.String(), "epoch", a.cfg.Epoch, "code", messages.CodeOf(err), "error", detailOf(err))
	}
	a.guard = nil
}

// Panicked rolls back, answers every caller and opens the file again.
func (a *Actor) Panicked(self *mailbox.Self, msg any, _ any, _ []byte) bool {
	bug := &messages.Error{Code: messages.CodeInternal, Key: a.cfg.Key.String(), Message: "the ledger's actor panicked"}
	if b := a.batch; b != nil {
		a.batch = nil
		for _, m := range b.members {
			if b.deciding {
				m.answer(messages.Unknown(a.cfg.Key, a.cfg.Epoch, bug))
			} else {
				m.answer(bug)
			}
		}
	}
	if m, ok := msg.(asker); ok {
		m.asked().answer(bug)
	}
	if a.guard == nil || a.filesLost() != nil { // what is at its name is not the ledger
		return false
	}
	_ = a.guard.close() // rolls back; the file is opened anew whatever it says
	a.guard = nil
	if _, err := a.open(self.Context()); err != nil {
		a.shared.breakWith(err)
		a.report(Opened{Err: err})
		return false
	}
	a.report(Restarted{})
	return true
}
