package actors_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/messages"
)

func Example() {
	ctx := context.Background()
	root, _ := os.MkdirTemp("", "leasehold")
	defer os.RemoveAll(root)
	node, err := actors.Start(ctx, actors.Config{StateRoot: root, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		panic(err)
	}
	id, _ := messages.DeriveTenant([]byte(strings.Repeat("k", 32)), "https://idp.example", "user-1")
	tenant, err := node.Tenant(ctx, "acme", id)
	if err != nil {
		panic(err)
	}
	first, _ := tenant.Append(ctx, messages.Event{Kind: "trip.logged", IdemKey: "trip-1"})
	again, _ := tenant.Append(ctx, messages.Event{Kind: "trip.logged", IdemKey: "trip-1"})
	fmt.Println(first.Seq, again.Seq, again.Duplicate)
	fmt.Println(node.Shutdown(ctx))
	// Output:
	// 1 1 true
	// <nil>
}
