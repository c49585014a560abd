package ledgeractor

import (
	"context"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// ReadMayCall reports whether reads may call a function.
var ReadMayCall = readMayCall

// outsideFunctions are known, and refused to everybody: they reach outside of the database, or are the driver's own.
var outsideFunctions = names(`
	load_extension fts3_tokenizer sqlite_log auth_enabled auth_user_add auth_user_change auth_user_delete authenticate fts5 fts5_insttoken
`)

// RefusedOnPurpose reports whether a function is known, and refused to reads.
func RefusedOnPurpose(function string) bool {
	return codeFunctions[function] || outsideFunctions[function]
}

// KillProcesses kills the query processes, as a machine without memory does.
func (q *Queries) KillProcesses() {
	q.processes.mu.Lock()
	defer q.processes.mu.Unlock()
	for p := range q.processes.alive {
		_ = p.cmd.Process.Kill()
	}
}

// ProcessIDs returns the ids of the query processes.
func (q *Queries) ProcessIDs() (ids []int) {
	q.processes.mu.Lock()
	defer q.processes.mu.Unlock()
	for p := range q.processes.alive {
		ids = append(ids, p.cmd.Process.Pid)
	}
	return ids
}

// FairQueue is the queue of turns.
type FairQueue struct{ q *fairQueue }

// NewFairQueue returns a queue with so many places.
func NewFairQueue(max int, share time.Duration, now func() time.Time) FairQueue {
	return FairQueue{newFairQueue(max, share, now)}
}

// Acquire waits for a place; release gives it back.
func (f FairQueue) Acquire(ctx context.Context, key messages.Key, limit, waiting int) (context.Context, func(), error) {
	ctx, p, err := f.q.acquire(ctx, key, limit, waiting)
	return ctx, func() { f.q.release(p) }, err
}
