// Command booking shows an agent's ledger of bookings: pending, then confirmed or compensated, with
// receipts, through the crash of a node. See README.md in its folder.
//
//	booking                    run the demonstration
//	booking node run [FLAGS]   serve the booking commands over HTTP: cmd/node with the application in it
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/messages"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "node" {
		os.Exit(node(os.Args[2:]))
	}
	root := flag.String("state-root", "", "folder of the node's files; default: a temporary one")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, *root, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// config is a node with the application's tables and commands. The short lease is for the impatient:
// after a crash the next owner waits it out.
func config(root string) actors.Config {
	return actors.Config{
		NodeName: "booking", StateRoot: root, TTL: time.Second, SnapshotEvery: 200 * time.Millisecond,
		Migrations: migrations, Commands: commands, Log: slog.New(slog.DiscardHandler),
	}
}

func run(ctx context.Context, root string, out io.Writer) (err error) {
	if root == "" {
		if root, err = os.MkdirTemp("", "booking-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(root)) }()
	}
	hotel := NewHotel(2)
	n, err := actors.Start(ctx, config(root))
	if err != nil {
		return err
	}
	tenant, err := openUser(ctx, n)
	if err != nil {
		return errors.Join(err, n.Abort())
	}
	agent := Agent{Ledger: tenant, Hotel: hotel}

	first := Request{ID: "trip-1", Room: "double", PriceCents: 12900}
	if err := show(ctx, out, agent, "book trip-1", first); err != nil {
		return errors.Join(err, n.Abort())
	}
	if _, err := tenant.Snapshot(ctx); err != nil {
		return errors.Join(err, n.Abort())
	}
	// The node dies in the middle of the second booking: the hotel has given a room away, and the
	// ledger may or may not know that there is a booking.
	second := Request{ID: "trip-2", Room: "single", PriceCents: 9900}
	if _, err := agent.call(ctx, "book", second); err != nil {
		return errors.Join(err, n.Abort())
	}
	if _, err := hotel.Reserve(second.ID); err != nil {
		return errors.Join(err, n.Abort())
	}
	if err := n.Abort(); err != nil {
		return err
	}
	fmt.Fprintln(out, "the node crashed while trip-2 was pending")

	if n, err = actors.Start(ctx, config(root)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Shutdown(context.WithoutCancel(ctx))) }()
	if tenant, err = openUser(ctx, n); err != nil {
		return err
	}
	agent.Ledger = tenant
	if err := errors.Join(
		show(ctx, out, agent, "trip-2 again, after the restart", second),
		show(ctx, out, agent, "trip-2 once more", second),
		show(ctx, out, agent, "trip-1 again", first),
		show(ctx, out, agent, "book trip-3", Request{ID: "trip-3", Room: "suite", PriceCents: 30000}),
	); err != nil {
		return err
	}
	rows, err := tenant.Query(ctx, "SELECT state, count(*), sum(price_cents) FROM bookings GROUP BY state ORDER BY state DESC")
	if err != nil {
		return err
	}
	for _, row := range rows.Rows {
		fmt.Fprintf(out, "%v: %v booking(s), %v cents\n", row...)
	}
	fmt.Fprintf(out, "rooms taken at the hotel: %d\n", hotel.Reserved())
	return nil
}

// openUser opens the ledger of the one user of this example.
func openUser(ctx context.Context, n *actors.Node) (*actors.Tenant, error) {
	id, err := messages.DeriveTenant([]byte("a key of the organization, 32 B+"), "https://idp.example/acme", "user-1")
	if err != nil {
		return nil, err
	}
	return n.Tenant(ctx, "acme", id)
}

func show(ctx context.Context, out io.Writer, agent Agent, what string, req Request) error {
	r, err := agent.Book(ctx, req)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	fmt.Fprintf(out, "%s: %s (seq %d) %s%s\n", what, r.State, r.Seq, r.Reference, r.Reason)
	return nil
}
