package engine

import (
	"errors"
	"fmt"

	"github.com/leasehold/leasehold/stores/storetest/servers"
)

// Wire is how one replica reaches the servers of a run: a proxy of its own in front of each, so that it can be cut off
// while others are not. It is safe for concurrent use.
type Wire struct{ proxies []*servers.Proxy }

// Connect lays a wire to the servers, and returns where the stores are by way of it.
func (s Servers) Connect(where Stores) (Stores, *Wire, error) {
	w := &Wire{}
	address := map[*Server]string{}
	for _, server := range s {
		p, err := servers.NewProxy(server.address)
		if err != nil {
			return where, nil, errors.Join(fmt.Errorf("a proxy in front of the %s server: %w", server.Kind, err), w.Close())
		}
		w.proxies = append(w.proxies, p)
		address[server] = p.Addr()
	}
	return s.place(where, func(server *Server) string { return address[server] }), w, nil
}

// Set puts faults in the place of those that there were, on the way to every server.
func (w *Wire) Set(f servers.Faults) {
	for _, p := range w.proxies {
		p.Set(f)
		f.Seed++
	}
}

// Cut closes every connection. New ones are taken, unless the faults that are set say otherwise.
func (w *Wire) Cut() {
	for _, p := range w.proxies {
		p.CutAll()
	}
}

// Hits returns what the faults, and Cut, have hit so far.
func (w *Wire) Hits() (sum servers.Hits) {
	for _, p := range w.proxies {
		sum = sum.Plus(p.Hits())
	}
	return sum
}

// Close cuts the wire for good.
func (w *Wire) Close() error {
	var errs []error
	for _, p := range w.proxies {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}
