package config

import (
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/leasehold/leasehold/cmd/node/storeurl"
	"github.com/leasehold/leasehold/messages"
)

// NATS says which NATS servers a node works with: ones that are there, or one inside the node.
type NATS struct {
	URL      string `name:"nats" help:"NATS servers to keep leases and copies in, unless --leases or --durable say otherwise: nats://HOST:PORT[,…]?sync=always with the parameters of such a store." placeholder:"URL" group:"cluster" yaml:"nats"`
	Embedded bool   `name:"nats-embedded" help:"Run a NATS server inside the node, with its data in the folder nats of the state root, and use it as with --nats." group:"cluster" yaml:"nats_embedded"`
	Listen   string `name:"nats-listen" default:"127.0.0.1:4222" help:"Where the embedded server listens for clients. Anything but loopback needs --nats-config." placeholder:"HOST:PORT" group:"cluster" yaml:"nats_listen"`
	Routes   string `name:"nats-routes" help:"The addresses (--nats-cluster-listen) of all members' embedded servers, this one's among them: 3 or 5." placeholder:"HOST:PORT,…" group:"cluster" yaml:"nats_routes"`
	Params   string `name:"nats-params" help:"How the node itself connects to its embedded server, where nats-config asks for it: user=NAME&password_file=FILE, nkey_file=FILE, creds_file=FILE, tls=true&ca_file=FILE, … as in the URL of a nats store." placeholder:"NAME=VALUE&…" group:"cluster" yaml:"nats_params"`
}

// Checker judges what only somebody who knows NATS servers can: whether an embedded one can run with
// these settings, and whether strangers could reach it. Its errors have CodeInvalidArgument.
type Checker interface {
	Check(c Config) error
	// Open reports whether the server lets in whoever reaches it.
	Open(c Config) bool
}

// RouteList returns the members' addresses.
func (n NATS) RouteList() []string {
	if n.Routes == "" {
		return nil
	}
	return strings.Split(n.Routes, ",")
}

// NATSURL returns the URL by which the node itself reaches its NATS servers: the setting nats, or that of
// the embedded server; "": it has none. It has the parameters of both kinds of stores, and may hold a password.
func (n NATS) NATSURL() string {
	if n.URL != "" || !n.Embedded {
		return n.URL
	}
	params, err := url.ParseQuery(n.Params)
	if err != nil {
		params = url.Values{} // Validate has said so
	}
	u := url.URL{Scheme: "nats", Host: reachable(n.Listen)}
	if user := params.Get("user"); user != "" {
		u.User = url.User(user)
	}
	params.Del("user")
	params.Set("sync", "always") // the embedded server does
	if !params.Has("replicas") {
		params.Set("replicas", "1")
		if len(n.RouteList()) >= 3 {
			params.Set("replicas", "3")
		}
	}
	u.RawQuery = params.Encode()
	return u.String()
}

// reachable turns an address to listen on into one to connect to.
func reachable(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if ip := net.ParseIP(host); err == nil && (host == "" || (ip != nil && ip.IsUnspecified())) {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return listen
}

// stores returns the URLs of the lease store and of the durable store on the node's NATS servers.
func (n NATS) stores() (leases, durable string) {
	u := n.NATSURL()
	return without(u, "chunk_bytes"), without(u, "keep_entries")
}

// without removes a parameter, which only the other kind of store has.
func without(storeURL, param string) string {
	u, err := storeurl.Parse(storeURL)
	if err != nil || !u.Query().Has(param) {
		return storeURL
	}
	values := u.Query()
	values.Del(param)
	u.RawQuery = values.Encode()
	return u.String()
}

// nats checks the settings of the group cluster.
func (v *validator) nats(c Config, schemes storeurl.Schemes, checker Checker) {
	before := len(v.errs)
	if c.NATS.URL != "" && c.NATS.Embedded {
		v.fail("nats", "names servers that are there, and nats_embedded runs one; leave one of them out")
		return
	}
	if !c.NATS.Embedded {
		for name, value := range map[string]string{"nats_routes": c.NATS.Routes, "nats_params": c.NATS.Params, "nats_cluster_listen": c.NATSClusterListen, "nats_config": c.NATSConfig} {
			if value != "" {
				v.fail(name, "is about the embedded server; it needs nats_embedded")
			}
		}
	}
	if c.NATS.URL != "" {
		v.store("nats", checkURL(schemes, c.NATS))
	}
	if !c.NATS.Embedded {
		return
	}
	if checker == nil {
		v.fail("nats_embedded", "this binary has no NATS server in it")
		return
	}
	v.address("nats_listen", c.NATS.Listen)
	v.members(c)
	if params, err := url.ParseQuery(c.NATS.Params); err != nil {
		v.fail("nats_params", "is not NAME=VALUE, joined by &; in a value, special characters are written as %%XX")
	} else if params.Has("password") {
		v.fail("nats_params", "a password belongs in a file: password_file")
	} else if len(v.errs) == before {
		v.store("nats_params", checkURL(schemes, c.NATS))
	}
	if len(v.errs) > before {
		return
	}
	if err := checker.Check(c); err != nil {
		e := messages.AsError(err)
		if e.Err != nil {
			v.fail("nats_config", "%s: %v", e.Message, e.Err)
		} else {
			v.fail("nats_config", "%s", e.Message)
		}
	}
}

func checkURL(schemes storeurl.Schemes, n NATS) error {
	leases, durable := n.stores()
	if err := schemes.CheckLeases(leases); err != nil {
		return err
	}
	return schemes.CheckDurable(durable)
}

// members checks the addresses of a cluster's servers.
func (v *validator) members(c Config) {
	routes := c.NATS.RouteList()
	if c.NATSClusterListen == "" {
		if len(routes) > 0 {
			v.fail("nats_routes", "needs nats_cluster_listen: where the other members reach this one")
		}
		return
	}
	if !v.address("nats_cluster_listen", c.NATSClusterListen) {
		return
	}
	if len(routes) != 3 && len(routes) != 5 {
		v.fail("nats_routes", "must name all members, this one among them: 3 or 5 addresses, not %d", len(routes))
	}
	for i, route := range routes {
		if !v.address("nats_routes", route) {
			return
		}
		if host, _, _ := net.SplitHostPort(route); host == "" {
			v.fail("nats_routes", "%q has no host", route)
			return
		}
		if slices.Contains(routes[:i], route) {
			v.fail("nats_routes", "%s is there twice", route)
		}
	}
	if !slices.ContainsFunc(routes, func(route string) bool { return mayBe(c.NATSClusterListen, route) }) {
		v.fail("nats_routes", "this member's own address, %s, is not among them", c.NATSClusterListen)
	}
}

// mayBe reports whether a route may lead to the address that a server listens on. What a name means
// cannot be known here.
func mayBe(listen, route string) bool {
	if listen == route {
		return true
	}
	host, port, _ := net.SplitHostPort(listen)
	otherHost, otherPort, _ := net.SplitHostPort(route)
	ip, other := net.ParseIP(host), net.ParseIP(otherHost)
	return port == otherPort && (host == "" || ip == nil || ip.IsUnspecified() || other == nil)
}

// address checks HOST:PORT, with a port that others can know in advance.
func (v *validator) address(field, address string) bool {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		v.fail(field, "%q is not HOST:PORT", address)
		return false
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		v.fail(field, "%q has no port from 1 to 65535", address)
		return false
	}
	return true
}
