package daemon

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// connections bounds the connections of the HTTP server. A new one takes the place of the one that is worth least: of those that have
// not sent a whole request yet, the oldest; else of those that are not in use, the oldest. Silent strangers thus end each other, and
// take no descriptor from ledgers and stores. It is safe for concurrent use.
type connections struct {
	most   int
	closed prometheus.Counter

	mu   sync.Mutex
	next uint64
	open map[net.Conn]connection
}

type connection struct {
	state http.ConnState
	since uint64 // in the order of changes
}

func newConnections(most int, registry prometheus.Registerer) (*connections, error) {
	c := &connections{most: most, open: make(map[net.Conn]connection), closed: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "leasehold_http_connections_closed_total", Help: "Connections that were closed because others needed their place."})}
	return c, registry.Register(c.closed)
}

// changed is http.Server.ConnState.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	if victim := c.note(conn, state); victim != nil {
		c.closed.Inc()
		if secure, ok := victim.(*tls.Conn); ok {
			victim = secure.NetConn() // without a last word, which might have to wait
		}
		_ = victim.Close() // its own goroutine sees to the rest
	}
}

// note keeps a change, and returns the connection that has to go because of it, if any.
func (c *connections) note(conn net.Conn, state http.ConnState) (victim net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if state == http.StateClosed || state == http.StateHijacked {
		delete(c.open, conn)
		return nil
	}
	if _, known := c.open[conn]; !known && state != http.StateNew {
		return nil // it had to go
	}
	c.next++
	c.open[conn] = connection{state, c.next}
	if state != http.StateNew || len(c.open) <= c.most {
		return nil
	}
	victim = conn // unless there is one that is worth less
	worst := connection{state: http.StateActive}
	for other, now := range c.open {
		better := now.state == worst.state && now.since < worst.since
		if other != conn && now.state != http.StateActive && (worst.state == http.StateActive || better || (now.state == http.StateNew && worst.state != http.StateNew)) {
			victim, worst = other, now
		}
	}
	delete(c.open, victim)
	return victim
}
