// Command appclient is an application outside of the cluster: it appends one event to a tenant, wherever that
// is served, asks for a snapshot, and reads the ledger back. Its argument is the URL of the NATS servers.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/leasehold/leasehold/actors/client"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/nats/natsconn"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: appclient nats://HOST:PORT[,…]")
	}
	// Within this time a request is sent again, to whoever serves the tenant by then.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := must(client.Dial(ctx, client.NATSConfig{Config: natsconn.Config{URL: os.Args[1]}}))
	tenant := must(c.Tenant("acme", "t-3129611eac9be1d5994a2b216b06ed27"))
	done := must(tenant.Append(ctx, messages.Event{Kind: "trip.logged", IdemKey: "trip-1", Payload: []byte(`{"km":12}`)}))
	must(tenant.Snapshot(ctx)) // what was acknowledged before survives the node
	events, _, err := tenant.Events(ctx, 0, 10)
	fmt.Printf("seq %d, there already: %t, events: %d\n", done.Seq, done.Duplicate, len(must(events, err)))
	fmt.Printf("answered by %s at epoch %d, seq %d\n", c.Owner(tenant.Key()), tenant.Seen().Epoch, tenant.Seen().Seq)
	if err := c.Close(); err != nil {
		log.Fatal(err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
