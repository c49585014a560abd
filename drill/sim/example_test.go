package sim_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/drill/sim"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

// What a seed's number picks.
func Example() {
	for seed, profile := range sim.Profiles()[:4] {
		fmt.Println(seed, profile.Name)
	}
	// Output:
	// 0 calm
	// 1 crashes
	// 2 stores
	// 3 freezes
}

// counter is an application of its own: a table with one row, and a command that counts in it and
// appends a receipt in the same transaction.
func counter() sim.Options {
	return sim.Options{
		Migrations: []ledgeractor.Migration{{Version: 1, Name: "counter", SQL: `CREATE TABLE counter (n INTEGER NOT NULL); INSERT INTO counter VALUES (0)`}},
		Commands: map[string]ledgeractor.Command{
			"count": func(ctx context.Context, tx *ledgeractor.Tx, in json.RawMessage) (any, error) {
				if _, err := tx.ExecContext(ctx, `UPDATE counter SET n = n + 1`); err != nil {
					return nil, err
				}
				var n int
				if err := tx.QueryRowContext(ctx, `SELECT n FROM counter`).Scan(&n); err != nil {
					return nil, err
				}
				_, err := tx.Append(ctx, messages.Event{Kind: "counted", SubjectID: fmt.Sprint("receipt-", n)})
				return n, err
			},
		},
	}
}

// TestOwnHandlers lets an application of its own live through every profile.
func TestOwnHandlers(t *testing.T) {
	counted := make([]atomic.Int64, 4)
	for seed := range counted {
		o := counter()
		o.Seed, o.Duration = uint64(seed), 2*time.Minute
		o.Workload = func(ctx context.Context, r *rand.Rand, tenant *actors.Tenant) error {
			out, err := tenant.Call(ctx, "count", nil)
			if err == nil {
				counted[seed].Add(1)
				var n int
				if json.Unmarshal(out, &n) != nil || n < 1 {
					return &messages.Error{Code: messages.CodeInternal, Message: "the counter does not count"}
				}
			}
			return err
		}
		sim.Report(t, sim.Run(t, o))
	}
	for seed := range counted {
		require.NotZero(t, counted[seed].Load(), "nothing was counted under seed %d", seed)
	}
}
