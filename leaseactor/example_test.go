package leaseactor_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/leasehold/leasehold/leaseactor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/sqlite"
)

// A session from its grant to its release.
func ExampleHolder() {
	dir, err := os.MkdirTemp("", "leasehold")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	store, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(dir, "leases.db")})
	if err != nil {
		panic(err)
	}
	defer store.Close()

	h, err := leaseactor.NewHolder(leaseactor.Config{
		Store:  store,
		Key:    messages.Key{Org: "acme", Tenant: "t-3129611eac9be1d5994a2b216b06ed27"},
		Owner:  messages.NewOwner("node-a", "f00d"),
		TTL:    30 * time.Second,
		Margin: 5 * time.Second,
		Spent:  leaseactor.NewSpent(),
	})
	if err != nil {
		panic(err)
	}
	lease, err := h.Acquire(ctx)
	fmt.Println("epoch", lease.Epoch, err)
	if h.Fence().Check() == nil { // before and after each piece of work
		fmt.Println("may acknowledge")
	}
	fmt.Println(h.Release(ctx))
	fmt.Println(h.Fence().Check())
	// Output:
	// epoch 1 <nil>
	// may acknowledge
	// <nil>
	// fenced [lease-released] acme/t-3129611eac9be1d5994a2b216b06ed27 epoch=1: the lease is not provably held
}
