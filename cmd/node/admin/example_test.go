package admin_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/cmd/node/admin"
	"github.com/leasehold/leasehold/cmd/node/storeurl"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func Example() {
	ctx := context.Background()
	root, err := os.MkdirTemp("", "admin-")
	check(err)
	defer func() { check(os.RemoveAll(root)) }()
	schemes := storeurl.Embedded()
	leases, err := schemes.OpenLeases(ctx, "sqlite:"+filepath.Join(root, "leases.db"), storeurl.Options{})
	check(err)
	durable, err := schemes.OpenDurable(ctx, "dir:"+filepath.Join(root, "durable"), storeurl.Options{})
	check(err)
	_, err = stores.Bind(ctx, leases, durable) // as the first start of a node does
	check(err)
	key := messages.Key{Org: "acme", Tenant: "t-3129611eac9be1d5994a2b216b06ed27"}
	_, err = leases.Acquire(ctx, key, "node-a#1", time.Minute)
	check(err)

	forget := admin.Forget{Key: key.String(), TTL: time.Second}
	forget.StateRoot = root
	env := &admin.Env{Stdout: os.Stdout, Stderr: os.Stderr, Schemes: schemes}
	fmt.Println(messages.CodeOf(forget.Run(ctx, env))) // node-a serves it
	check(leases.Release(ctx, key, "node-a#1", 1))
	check(forget.Run(ctx, env))
	check(leases.Close())
	check(durable.Close())
	// Output:
	// held
	// acme/t-3129611eac9be1d5994a2b216b06ed27 is forgotten up to epoch 2; 0 objects deleted
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
