package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/leasehold/leasehold/messages"
)

// Client is a Ledger behind the HTTP API of a node.
type Client struct {
	HTTP  *http.Client
	Base  string // http://127.0.0.1:7070
	Key   messages.Key
	Token string // bearer token; empty: none
}

// AppendAt implements Ledger.
func (c Client) AppendAt(ctx context.Context, events []messages.Event) ([]messages.Appended, uint64, error) {
	var answer struct {
		Epoch  uint64              `json:"epoch"`
		Events []messages.Appended `json:"events"`
	}
	err := c.post(ctx, "events", map[string]any{"events": events}, &answer)
	return answer.Events, answer.Epoch, err
}

// Snapshot implements Ledger.
func (c Client) Snapshot(ctx context.Context) (m messages.Manifest, err error) {
	err = c.post(ctx, "snapshot", nil, &m)
	return m, err
}

func (c Client) post(ctx context.Context, operation string, in, out any) error {
	var body bytes.Buffer
	if in != nil {
		e := json.NewEncoder(&body)
		e.SetEscapeHTML(false) // a payload goes out as long as it is
		if err := e.Encode(in); err != nil {
			return err
		}
	}
	url := fmt.Sprintf("%s/v1/orgs/%s/tenants/%s/%s", c.Base, c.Key.Org, c.Key.Tenant, operation)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, &body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return &messages.Error{Code: messages.CodeUnknownOutcome, Key: c.Key.String(), Message: "no answer", Err: err}
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	if resp.StatusCode != http.StatusOK {
		refused := &messages.Error{}
		if err := json.NewDecoder(resp.Body).Decode(refused); err != nil {
			return fmt.Errorf("%s: %w", resp.Status, err)
		}
		return refused
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return &messages.Error{Code: messages.CodeUnknownOutcome, Key: c.Key.String(), Message: "the answer was cut off", Err: err}
	}
	return nil
}
