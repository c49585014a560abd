package s3_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/s3"
	"github.com/leasehold/leasehold/stores/s3/s3test"
)

var key1 = messages.Key{Org: "acme", Tenant: "t-3129611eac9be1d5994a2b216b06ed27"}

// One bucket holds both the leases and the objects.
func Example() {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "bucket")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	server, err := s3test.Launch(ctx, folder) // a real server; yours is there already
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Stop()

	bucket, err := s3.Open(ctx, s3.Config{Bucket: s3test.Bucket, Prefix: "prod/", Region: s3test.Region,
		Endpoint: server.Endpoint, PathStyle: true, AccessKeyID: s3test.AccessKey, SecretAccessKey: s3test.SecretKey})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer bucket.Close()

	objects := bucket.Objects()
	for _, text := range []string{"first", "second"} {
		created, err := objects.PutIfAbsent(ctx, "acme/report.txt", []byte(text))
		fmt.Println("created:", created, err)
	}
	data, ok, err := objects.Get(ctx, "acme/report.txt", 1<<30)
	fmt.Println(string(data), ok, err)

	leases, err := bucket.Leases(ctx, s3.LeaseConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	lease, err := leases.Acquire(ctx, key1, "node-a#1", time.Minute)
	fmt.Println(lease.Owner, lease.Epoch, err)
	err = leases.Release(ctx, key1, "node-a#1", lease.Epoch)
	fmt.Println("released:", err)
	lease, err = leases.Acquire(ctx, key1, "node-b#1", time.Minute)
	fmt.Println(lease.Owner, lease.Epoch, err)
	// Output:
	// created: true <nil>
	// created: false <nil>
	// first true <nil>
	// node-a#1 1 <nil>
	// released: <nil>
	// node-b#1 2 <nil>
}
