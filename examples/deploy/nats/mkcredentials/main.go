// Command mkcredentials makes the nkeys and certificates that nats-server.conf, next to it, is used with:
//
//	go run ./examples/deploy/nats/mkcredentials --out credentials
//
// What is there already stays: run it again with one more name to add that one. The files are described
// in package credentials.
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/alecthomas/kong"

	"github.com/leasehold/leasehold/examples/deploy/nats/credentials"
)

type command struct {
	Out     string   `required:"" help:"Folder for the files; it is made." placeholder:"DIR"`
	Servers []string `default:"nats-1,nats-2,nats-3" help:"Host names of the NATS servers."`
	Hosts   []string `default:"localhost,127.0.0.1" help:"Further host names and addresses that every server's certificate is good for."`
	Clients []string `default:"node-a,node-b,node-c,app,billing,operator" help:"Names of the clients."`
	Days    int      `default:"365" help:"Days that the certificates of servers and clients are good for."`
}

func main() {
	var c command
	kong.Parse(&c, kong.Name("mkcredentials"), kong.Description("Make nkeys and certificates for NATS servers and their clients."), kong.UsageOnError())
	plan := credentials.Plan{Servers: c.Servers, Hosts: c.Hosts, Clients: c.Clients, Valid: time.Duration(c.Days) * 24 * time.Hour}
	if err := plan.Write(c.Out); err != nil {
		fmt.Fprintln(os.Stderr, "mkcredentials:", err)
		os.Exit(1)
	}
	fmt.Println("the credentials are in", c.Out)
}
