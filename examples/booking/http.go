package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/leasehold/leasehold/cmd/node/cli"
	"github.com/leasehold/leasehold/cmd/node/daemon"
	"github.com/leasehold/leasehold/cmd/node/storeurl"
	"github.com/leasehold/leasehold/messages"
)

// node is the node binary with the booking tables and commands in it: all of cmd/node, and they can be
// called over HTTP.
func node(args []string) int {
	return cli.Main(args, daemon.App{Migrations: migrations, Commands: commands}, storeurl.Embedded())
}

// Client calls the commands of one tenant over HTTP. It is a Ledger.
type Client struct {
	HTTP *http.Client
	Base string // http://127.0.0.1:7070
	Key  messages.Key
}

// Call implements Ledger. What the node refused comes back as the *messages.Error that it was there.
func (c Client) Call(ctx context.Context, command string, in json.RawMessage) (json.RawMessage, error) {
	url := fmt.Sprintf("%s/v1/orgs/%s/tenants/%s/commands/%s", c.Base, c.Key.Org, c.Key.Tenant, command)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(in))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.HTTP.Do(req)
	if err != nil {
		// It may have arrived: the command may or may not have run.
		return nil, &messages.Error{Code: messages.CodeUnknownOutcome, Key: c.Key.String(), Message: "no answer", Err: err}
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	if resp.StatusCode != http.StatusOK {
		refused := &messages.Error{}
		if err := json.NewDecoder(resp.Body).Decode(refused); err != nil {
			return nil, fmt.Errorf("%s: %w", resp.Status, err)
		}
		return nil, refused
	}
	var answer struct {
		Output json.RawMessage `json:"output"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return nil, &messages.Error{Code: messages.CodeUnknownOutcome, Key: c.Key.String(), Message: "the answer was cut off", Err: err}
	}
	return answer.Output, nil
}
