package servers

import (
	"errors"
	"maps"
	"net"
	"sync"
)

// Proxy passes TCP connections on to a server, and puts faults between. It is safe for concurrent use.
type Proxy struct {
	target   string
	listener net.Listener
	running  sync.WaitGroup

	mu     sync.Mutex
	gone   *sync.Cond // signalled when a connection is gone
	closed bool
	conns  map[net.Conn]struct{}
	trips  int
	// onAnswer and onRequest are what happens to the next bytes of that direction.
	onAnswer, onRequest fault
}

type fault int

const (
	pass fault = iota
	cut        // the connection is closed instead
	drop       // they vanish, and so does everything after them: the connection stays open
)

// NewProxy listens on a free port of the loopback interface.
func NewProxy(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{target: target, listener: l, conns: map[net.Conn]struct{}{}}
	p.gone = sync.NewCond(&p.mu)
	p.running.Go(p.accept)
	return p, nil
}

// Addr returns the address to connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Close cuts every connection, and takes no more.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	err := p.listener.Close()
	p.CutAll()
	p.running.Wait()
	return err
}

// CutAll closes every connection, forgets what was planned for the next bytes, and returns when the ends of
// the connections have been sent. New ones are taken.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onAnswer, p.onRequest = pass, pass
	cut := maps.Clone(p.conns)
	for c := range cut {
		_ = c.Close() // whose last reader sends the end
	}
	for c := range cut {
		for _, there := p.conns[c]; there; _, there = p.conns[c] {
			p.gone.Wait()
		}
	}
}

// CutNextAnswer cuts the connection on which the server answers next: the request has arrived, and
// nobody is told.
func (p *Proxy) CutNextAnswer() { p.plan(&p.onAnswer, cut) }

// CutNextRequest cuts the connection on which a client asks next: the request never arrives.
func (p *Proxy) CutNextRequest() { p.plan(&p.onRequest, cut) }

// DropNextAnswer swallows the server's next answer; the connection stays open, and silent.
func (p *Proxy) DropNextAnswer() { p.plan(&p.onAnswer, drop) }

func (p *Proxy) plan(where *fault, what fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*where = what
}

// RoundTrips returns how often, in all, a client has asked after the server's last answer on its connection.
func (p *Proxy) RoundTrips() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.trips
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() { p.serve(client) })
	}
}

// link is one connection through the proxy.
type link struct {
	awaiting bool // guarded by Proxy.mu: the client has asked, and the server has not answered
}

func (p *Proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		_ = client.Close()
		return
	}
	defer p.remove(client, server)
	if !p.add(client, server) {
		return
	}
	l := &link{}
	var both sync.WaitGroup
	both.Go(func() { p.copy(server, client, l, true) })
	both.Go(func() { p.copy(client, server, l, false) })
	both.Wait()
}

func (p *Proxy) copy(to, from net.Conn, l *link, request bool) {
	// Whoever closes its side ends the other: databases have no use for half a connection.
	defer func() { _ = errors.Join(to.Close(), from.Close()) }()
	buffer := make([]byte, 64<<10)
	dropping := false
	for {
		n, err := from.Read(buffer)
		if n > 0 && !dropping {
			switch p.meet(l, request) {
			case cut:
				return
			case drop:
				dropping = true
			default:
				if _, err := to.Write(buffer[:n]); err != nil {
					return
				}
			}
		}
		if err != nil {
			return
		}
	}
}

// meet counts what passes, and returns what is to happen to it.
func (p *Proxy) meet(l *link, request bool) (f fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if request && !l.awaiting {
		p.trips++
	}
	l.awaiting = request
	if request {
		f, p.onRequest = p.onRequest, pass
	} else {
		f, p.onAnswer = p.onAnswer, pass
	}
	return f
}

func (p *Proxy) add(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		for _, c := range conns {
			p.conns[c] = struct{}{}
		}
	}
	return !p.closed
}

func (p *Proxy) remove(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
		delete(p.conns, c)
	}
	p.gone.Broadcast()
}
