package natsconn

import (
	"context"
	"net"
	"sync"
	"time"
)

// dialer dials the servers. The NATS client takes no context, so until connected is called this is what
// ends a connect whose context has ended: in a dial, and in a server's silence after it.
type dialer struct {
	timeout time.Duration

	mu         sync.Mutex
	connecting context.Context // of Connect; nil once it has returned
	stop       []func() bool   // so that the end of that context means nothing any more
}

// Dial implements natsgo.CustomDialer.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	d.mu.Lock()
	ctx := d.connecting
	d.mu.Unlock()
	if ctx == nil {
		ctx = context.Background() // a reconnect; Conn.Close is what ends it
	}
	conn, err := (&net.Dialer{Timeout: d.timeout}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.connecting != nil {
		d.stop = append(d.stop, context.AfterFunc(ctx, func() { _ = conn.Close() }))
	}
	return conn, nil
}

// connected ends the rule of the context over the connections.
func (d *dialer) connected() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.connecting = nil
	for _, stop := range d.stop {
		stop()
	}
	d.stop = nil
}
