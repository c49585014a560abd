package client_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/actors/client"
	"github.com/leasehold/leasehold/messages"
)

// local is the Transport of a program that has its node inside itself.
type local struct{ node *actors.Node }

func (l local) Send(ctx context.Context, target string, req *messages.Request) (*messages.Reply, error) {
	if target == "" || target == l.node.Owner() { // "": who should be asked? The node says that it should be
		return l.node.Do(ctx, req), nil
	}
	return nil, client.ErrNotDelivered
}

// A node and its client in one program. Over NATS, client.Dial is all that differs.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	folder, err := os.MkdirTemp("", "client")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	node, err := actors.Start(ctx, actors.Config{StateRoot: folder})
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := client.New(local{node}, client.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	tenant, err := c.Tenant("acme", "t-3129611eac9be1d5994a2b216b06ed27")
	if err != nil {
		fmt.Println(err)
		return
	}
	first, err := tenant.Append(ctx, messages.Event{Kind: "trip.logged", IdemKey: "trip-1"})
	fmt.Println(first.Seq, first.Duplicate, err)
	again, err := tenant.Append(ctx, messages.Event{Kind: "trip.logged", IdemKey: "trip-1"})
	fmt.Println(again.Seq, again.Duplicate, err)

	fmt.Println(tenant.Handoff(ctx)) // the next request opens it again, at the next epoch
	result, err := tenant.Query(ctx, "SELECT count(*) FROM events WHERE kind = ?", "trip.logged")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Rows[0][0], tenant.Seen())

	fmt.Println(tenant.Forget(ctx))
	_, err = tenant.Query(ctx, "SELECT count(*) FROM events")
	fmt.Println(errors.Is(err, messages.ErrUnknownTenant)) // reading creates nothing
	first, err = tenant.Append(ctx, messages.Event{Kind: "trip.logged", IdemKey: "trip-1"})
	fmt.Println(first.Seq, first.Duplicate, err, tenant.Seen().Epoch)

	if err := errors.Join(c.Close(), node.Shutdown(ctx)); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 1 false <nil>
	// 1 true <nil>
	// <nil>
	// 1 {2 1}
	// <nil>
	// true
	// 1 false <nil> 3
}
