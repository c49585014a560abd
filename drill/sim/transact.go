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

var errChangedMind = errors.New("the application changed its mind")

// transaction is what the application's function does: two appends, a pause between them, and perhaps
// an error at the end. When it is told in the middle that the lease is over it goes on all the same,
// as a careless application would. Its Tx may be taken away while it still runs, hence the mutex.
type transaction struct {
	c     *client
	ids   [2]string
	pause time.Duration
	quits bool

	mu       sync.Mutex
	done     [2]messages.Appended
	sawFence time.Time
}

func (t *transaction) run(tx *ledgeractor.Tx) error {
	for i, id := range t.ids {
		done, err := tx.Append(tx.Context(), t.c.event(id, ""))
		t.mu.Lock()
		t.done[i] = done
		careless := i > 0 && errors.Is(err, messages.ErrFenced)
		if careless {
			t.sawFence = time.Now()
		}
		t.mu.Unlock()
		switch {
		case careless:
			return nil
		case err != nil:
			return err
		case i == 0 && t.pause > 0 && !rest(tx.Context(), t.pause):
			return messages.AsError(tx.Context().Err())
		}
	}
	if t.quits {
		return errChangedMind
	}
	return nil
}

// transact appends two events in one transaction.
func (c *client) transact(ctx context.Context) {
	t := &transaction{c: c, ids: [2]string{c.id(), c.id()}}
	if c.r.Float64() < 0.3 {
		t.pause = between(c.r, time.Second, 14*time.Second)
	}
	t.quits = c.r.Float64() < 0.1
	_ = c.use(ctx, 25*time.Second, "run", func(ctx context.Context, tenant *actors.Tenant, l *life) error {
		var index [2]int
		for i, id := range t.ids {
			index[i] = c.w.intend(history.Write{Key: c.key, ID: id, Owner: l.owner})
		}
		err := tenant.Run(ctx, t.run)
		if errors.Is(err, errChangedMind) {
			err = &messages.Error{Code: messages.CodeCommandFailed, Err: err}
		}
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
			_ = c.w.answer(at, l, t.done[i], outcome)
		}
		return err
	})
}

func (w *world) sawFence(i int, saw time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history.Writes[i].SawFence = saw
}
