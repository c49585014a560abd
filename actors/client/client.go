package client

import (
	"context"

	"github.com/leasehold/leasehold/messages"
)

// Client sends requests to tenants, wherever in the cluster they are. It is safe for concurrent use, and a
// program needs one. It has no goroutine of its own; a request that is hedged has one until it is answered.
type Client struct {
	transport Transport
	cfg       Config
	owners    *owners
	budget    *budget
	life      context.Context // ends with Close
	end       context.CancelFunc
	closing   func() error // closes what Dial opened
}

// New returns a Client over a transport that exists; Dial makes both. A Config that cannot work is
// CodeInvalidArgument.
func New(t Transport, cfg Config) (*Client, error) {
	if t == nil {
		return nil, invalid("a client needs a transport")
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Client{transport: t, cfg: cfg, owners: newOwners(cfg.MaxOwners), budget: newBudget(cfg.HedgeAfter), closing: func() error { return nil }}
	c.life, c.end = context.WithCancel(context.Background())
	return c, nil
}

// Tenant returns a handle on a tenant. It touches nothing: a tenant that does not exist comes into being
// with its first append. Malformed ids are CodeInvalidID.
func (c *Client) Tenant(org messages.OrgID, id messages.TenantID) (*Tenant, error) {
	key, err := messages.NewKey(org, id)
	if err != nil {
		return nil, err
	}
	return &Tenant{client: c, key: key}, nil
}

// Owner returns the owner id of the node that answered for a tenant last, or was named by one that did
// not; "": none is remembered. It asks nobody.
func (c *Client) Owner(key messages.Key) string { return c.owners.get(key) }

// Close ends the requests that are under way, and closes what Dial opened; a transport that was given to New
// stays open. Requests from now on are CodeClosed; those that were under way are too, or CodeUnknownOutcome.
// Closing twice is fine.
func (c *Client) Close() error {
	c.end()
	return c.closing()
}
