package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/postgres"
	"github.com/leasehold/leasehold/stores/storetest/servers"
)

func Example() {
	ctx := context.Background()
	server, err := servers.PostgreSQL(ctx) // a private one; yours is there already
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Stop()
	if err := server.Exec(ctx, "", "CREATE DATABASE example"); err != nil {
		fmt.Println(err)
		return
	}

	store, err := postgres.Open(ctx, postgres.Config{DSN: server.DSN("", "example"), Migrate: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()

	key := messages.Key{Org: "acme", Tenant: "t-3129611eac9be1d5994a2b216b06ed27"}
	lease, err := store.Acquire(ctx, key, "node-a#1", time.Minute)
	fmt.Println(lease.Owner, lease.Epoch, err)

	_, err = store.Acquire(ctx, key, "node-b#1", time.Minute)
	var held *messages.Error
	if errors.As(err, &held) && held.Code == messages.CodeHeld {
		fmt.Println("held by", held.Owner, "at epoch", held.Epoch)
	}

	fmt.Println("released:", store.Release(ctx, key, "node-a#1", lease.Epoch))
	lease, err = store.Acquire(ctx, key, "node-b#1", time.Minute)
	fmt.Println(lease.Owner, lease.Epoch, err)
	// Output:
	// node-a#1 1 <nil>
	// held by node-a#1 at epoch 1
	// released: <nil>
	// node-b#1 2 <nil>
}
