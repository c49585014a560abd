package sim

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/drill/history"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

// transaction is what the application's function does: a payment and an append, a pause between them, and perhaps
// an error at the end. When it is told in the middle that the lease is over it goes on all the same,
// as a careless application would. Its Tx may be taken away while it still runs, hence the mutex.
type transaction struct {
	payment payment
	note    string // the ID of the append
	pause   time.Duration
	ends    string

	mu       sync.Mutex
	done     [2]messages.Appended
	sawFence time.Time
}

func (t *transaction) run(tx *ledgeractor.Tx) error {
	done, err := pay(tx.Context(), tx, t.payment)
	t.noted(0, done)
	switch {
	case err != nil:
		return err
	case t.pause > 0 && !rest(tx.Context(), t.pause):
		return messages.AsError(tx.Context().Err())
	}
	done, err = tx.Append(tx.Context(), event(t.note, ""))
	t.noted(1, done)
	switch {
	case errors.Is(err, messages.ErrFenced):
		t.mu.Lock()
		defer t.mu.Unlock()
		t.sawFence = time.Now()
		return nil
	case err != nil:
		return err
	}
	return end(t.ends)
}

func (t *transaction) noted(i int, done messages.Appended) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done[i] = done
}

// transaction draws what a transaction does.
func (c *client) transaction() *transaction {
	t := &transaction{payment: payment{ID: c.id(), Amount: c.r.Int64N(100)}, note: c.id()}
	if c.r.Float64() < 0.3 {
		t.pause = between(c.r, time.Second, 14*time.Second)
	}
	t.ends, _ = c.wayOut()
	return t
}

// transact appends two events, and pays, in one transaction.
func (c *client) transact(ctx context.Context) {
	t := c.transaction()
	_ = c.use(ctx, 25*time.Second, "run", func(ctx context.Context, tenant *actors.Tenant, l *life) error {
		return c.runAt(ctx, tenant, l, t)
	}, messages.CodeCommandFailed, messages.CodePanic)
}

func (c *client) runAt(ctx context.Context, tenant *actors.Tenant, l *life, t *transaction) error {
	var index [2]int
	for i, id := range []string{t.payment.ID, t.note} {
		index[i] = c.w.intend(history.Write{Key: c.key, ID: id, Group: t.payment.ID, Owner: l.owner})
	}
	err := tenant.Run(ctx, t.run)
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, at := range index {
		outcome := err
		switch {
		case t.sawFence.IsZero():
		case i == 0 && !l.dead():
			c.w.sawFence(at, t.sawFence)
		case i > 0: // whatever became of the rest, this one was refused
			outcome = messages.Fenced(c.key, 0, "")
		}
		c.w.answer(at, l, 0, t.done[i], outcome)
	}
	return err
}

func (w *world) sawFence(i int, saw time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history.Writes[i].SawFence = saw
}
