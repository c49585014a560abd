package client

import (
	"context"
	"errors"

	"github.com/leasehold/leasehold/messages"
)

// Transport carries requests to the members of a cluster. It must honour ctx and be safe for concurrent
// use. It sends a request once: what is sent again is the Client's decision.
type Transport interface {
	// Send carries a request to the member with the owner id target (a node incarnation) and returns its reply. For ""
	// any member will do: what is sent there is always an ActionLocate, without what is to be done, and Owner of the
	// reply is who should be sent that. A Reply with an Error is an answer like any other. An error of Send itself is
	// a failure on the way: one that is ErrNotDelivered says that nobody got the request; after any other one it
	// may have been carried out, or may yet be.
	Send(ctx context.Context, target string, req *messages.Request) (*messages.Reply, error)
}

// Sure is what a Transport may implement, too.
type Sure interface {
	// Sure reports whether neither a request to a target nor its answer can get lost, because it does not leave the
	// process. Such a request is not hedged: the answer that takes long is the one there is.
	Sure(target string) bool
}

// ErrNotDelivered says that a request reached nobody: nothing was done, and nothing will be. A Transport
// wraps it (errors.Is).
var ErrNotDelivered = errors.New("the request was not delivered")
