package nats_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/nats"
	"github.com/leasehold/leasehold/stores/nats/natsserver"
)

func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	folder, err := os.MkdirTemp("", "nats")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	server, err := natsserver.Start(ctx, natsserver.Config{Dir: folder})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Shutdown()

	cfg := nats.Config{URL: server.URL(), SyncAlways: true} // natsserver syncs every write
	leases, err := nats.OpenLeases(ctx, cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer leases.Close()
	objects, err := nats.OpenObjects(ctx, cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer objects.Close()

	key := messages.Key{Org: "acme", Tenant: "t-3129611eac9be1d5994a2b216b06ed27"}
	lease, err := leases.Acquire(ctx, key, "node-a#1", time.Minute)
	fmt.Println(lease.Owner, lease.Epoch, err)
	_, err = leases.Acquire(ctx, key, "node-b#1", time.Minute)
	var held *messages.Error
	if errors.As(err, &held) && held.Code == messages.CodeHeld {
		fmt.Println("held by", held.Owner, "at epoch", held.Epoch)
	}

	created, err := objects.PutIfAbsent(ctx, key.BaseName(1), []byte(`{"kind":"base"}`))
	fmt.Println("created:", created, err)
	created, err = objects.PutIfAbsent(ctx, key.BaseName(1), []byte("something else"))
	fmt.Println("created:", created, err)
	// Output:
	// node-a#1 1 <nil>
	// held by node-a#1 at epoch 1
	// created: true <nil>
	// created: false <nil>
}
