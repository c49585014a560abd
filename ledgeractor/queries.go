package ledgeractor

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// QueriesConfig says how the queries of a node run. A zero field stands for its default.
type QueriesConfig struct {
	// Max is the number of queries that run at a time, on all ledgers together; a tenant has at most half of them, and
	// at most Limits.MaxReaders. Default 4.
	Max int
	// Share is how long a query may run while a tenant that has used less waits for its turn. After it, it is
	// ended as CodeOverloaded. Default 1 s.
	Share time.Duration
	// Processes makes every query run in a process of its own, which is killed when its time is up, whatever SQLite does
	// in it. It is this executable, started once more; main does not run in it. Without it queries run in this process: SQLite
	// looks at the deadline between its steps only, and its memory is bounded by nothing but Limits.MaxValueBytes for each
	// value. That is for SQL that the program itself has written.
	Processes bool
	// Memory bounds what SQLite may hold in one query process, in bytes. What needs more is CodeTooLarge. Default 256 MiB.
	Memory int64
	// TempDir is the folder of the temporary files of query processes. Default: SQLite's.
	TempDir string
	// Now is the clock. Default time.Now.
	Now func() time.Time
	// Log gets what an operator must know; never SQL. Default: discarded.
	Log *slog.Logger
}

func (c QueriesConfig) withDefaults() QueriesConfig {
	def(&c.Max, 4)
	def(&c.Share, time.Second)
	def(&c.Memory, 256<<20)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Validate returns an error with CodeInvalidArgument for a configuration that can never work: a negative field, or less memory
// than a query process needs.
func (c QueriesConfig) Validate() error {
	const minMemory = 8 << 20
	switch {
	case c.Max < 0 || c.Share < 0:
		return invalid("the number of queries and their share must not be negative")
	case c.Memory != 0 && c.Memory < minMemory:
		return invalid(fmt.Sprintf("a query process needs at least %d bytes of memory", minMemory))
	}
	return nil
}

// Queries runs the queries of all ledgers that share it: no more than its bounds at a time, and fairly by tenant. It is safe for
// concurrent use.
type Queries struct {
	cfg       QueriesConfig
	queue     *fairQueue
	processes *queryProcesses // nil: queries run in this process
}

// NewQueries returns a Queries; Close ends it. An invalid configuration is CodeInvalidArgument.
func NewQueries(cfg QueriesConfig) (*Queries, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	q := &Queries{cfg: cfg, queue: newFairQueue(cfg.Max, cfg.Share, cfg.Now)}
	if cfg.Processes {
		q.processes = newQueryProcesses(cfg)
	}
	return q, nil
}

// Close kills the query processes. Queries that still run are CodeClosed.
func (q *Queries) Close() {
	if q.processes != nil {
		q.processes.close()
	}
}

// QueriesStatus is the state of a Queries at one moment.
type QueriesStatus struct {
	Running, Waiting int
	Processes        int    // that are alive
	Killed           uint64 // processes that were killed so far: their query did not end in time
}

// Status returns the present state. It does not wait for queries.
func (q *Queries) Status() QueriesStatus {
	var s QueriesStatus
	s.Running, s.Waiting = q.queue.counts()
	if q.processes != nil {
		s.Processes, s.Killed = q.processes.count(), q.processes.killed.Load()
	}
	return s
}

// acquire waits for the turn of a query of this ledger; release must follow. stop is done when the ledger closes.
func (q *Queries) acquire(ctx, stop context.Context, cfg Config) (context.Context, *place, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	unwatch := context.AfterFunc(stop, func() { cancel(closedError(cfg.Key)) })
	limit := min(max(1, q.cfg.Max/2), max(1, cfg.Limits.MaxReaders))
	ctx, p, err := q.queue.acquire(ctx, cfg.Key, limit, cfg.Limits.MaxQueued)
	unwatch()
	if err != nil {
		cancel(nil)
		return nil, nil, err
	}
	return ctx, p, nil
}

func (q *Queries) release(p *place) { q.queue.release(p) }

// causeOf returns why ctx is done: the error that took a query's place away, or that of the context.
func causeOf(ctx context.Context) error {
	if cause, ok := context.Cause(ctx).(*messages.Error); ok {
		return cause
	}
	return messages.AsError(ctx.Err())
}
