package ledgeractor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/mailbox"
)

// held is a fence that is always open. A real one follows the lease.
type held struct{}

func (held) Check() error { return nil }

func Example() {
	dir, err := os.MkdirTemp("", "ledger")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	system := mailbox.NewSystem(slog.New(slog.DiscardHandler))
	defer system.Shutdown(ctx)

	tenant, err := messages.DeriveTenant(make([]byte, 32), "https://idp.example/acme", "user-1")
	if err != nil {
		fmt.Println(err)
		return
	}
	actor := ledgeractor.New(ledgeractor.Config{
		Path:  filepath.Join(dir, "ledger.db"),
		Key:   messages.Key{Org: "acme", Tenant: tenant},
		Epoch: 1,
		Fence: held{},
		Migrations: []ledgeractor.Migration{
			{Version: 1, Name: "trips", SQL: "CREATE TABLE trips (id INTEGER PRIMARY KEY, km REAL NOT NULL)"},
		},
	}, func(msg any) {
		if opened, ok := msg.(ledgeractor.Opened); ok && opened.Err != nil {
			fmt.Println(opened.Err)
		}
	})
	ledger := actor.Handle(system.Spawn(actor))

	// An event and a row of the application's own table, in one transaction.
	err = ledger.Run(ctx, func(tx *ledgeractor.Tx) error {
		if _, err := tx.ExecContext(tx.Context(), "INSERT INTO trips (km) VALUES (?)", 12.5); err != nil {
			return err
		}
		_, err := tx.Append(tx.Context(), messages.Event{Kind: "trip.logged", IdemKey: "trip-1", Payload: json.RawMessage(`{"km": 12.5}`)})
		return err
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	retried, err := ledger.Append(ctx, []messages.Event{{Kind: "trip.logged", IdemKey: "trip-1", Payload: json.RawMessage(`{"km":12.5}`)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	total, err := ledger.Query(ctx, "SELECT count(*), sum(km) FROM trips")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(retried[0].Seq, retried[0].Duplicate, total.Rows[0])
	// Output: 1 true [1 12.5]
}
