package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/sqlite"
)

func Example() {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "leases")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)

	store, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(folder, "leases.db")})
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

	err = store.Release(ctx, key, "node-a#1", lease.Epoch)
	fmt.Println("released:", err)
	lease, err = store.Acquire(ctx, key, "node-b#1", time.Minute)
	fmt.Println(lease.Owner, lease.Epoch, err)
	// Output:
	// node-a#1 1 <nil>
	// held by node-a#1 at epoch 1
	// released: <nil>
	// node-b#1 2 <nil>
}
