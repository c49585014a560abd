package api_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/cmd/node/api"
	"github.com/leasehold/leasehold/stores/dir"
	"github.com/leasehold/leasehold/stores/sqlite"
)

func Example() {
	ctx := context.Background()
	root, err := os.MkdirTemp("", "api-")
	check(err)
	defer func() { check(os.RemoveAll(root)) }()
	leases, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(root, "leases.db")})
	check(err)
	durable, err := dir.Open(ctx, dir.Config{Root: filepath.Join(root, "durable")})
	check(err)
	node, err := actors.Start(ctx, actors.Config{StateRoot: filepath.Join(root, "node"), Leases: leases, Durable: durable, Log: slog.New(slog.DiscardHandler)})
	check(err)
	server, err := api.New(api.Config{Node: node, Leases: leases, Durable: durable})
	check(err)
	web := httptest.NewServer(server)

	events := web.URL + "/v1/orgs/acme/tenants/t-3129611eac9be1d5994a2b216b06ed27/events"
	for range 2 { // a retry with its key is the same event
		answer, err := http.Post(events, "application/json", strings.NewReader(`{"kind":"trip.logged","idem_key":"trip-1"}`))
		check(err)
		_, err = io.Copy(os.Stdout, answer.Body)
		check(err)
		check(answer.Body.Close())
	}
	server.Drain()
	fmt.Println(node.Shutdown(ctx))
	http.DefaultClient.CloseIdleConnections()
	web.Close()
	check(leases.Close())
	check(durable.Close())
	// Output:
	// {"epoch":1,"events":[{"seq":1}]}
	// {"epoch":1,"events":[{"seq":1,"duplicate":true}]}
	// <nil>
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
