package servers

import (
	"context"
	"maps"
	"math/rand/v2"
	"net"
	"sync"
)

// Proxy passes TCP connections on to a server, and puts faults between: single ones (CutNextAnswer and its like), and
// those that last until they are lifted (Set). It is safe for concurrent use.
type Proxy struct {
	target   string
	listener net.Listener
	running  sync.WaitGroup

	mu     sync.Mutex
	gone   *sync.Cond // signalled when a connection is gone
	closed bool
	links  map[*link]struct{}
	trips  int
	// onAnswer and onRequest are what happens to the next bytes of that direction.
	onAnswer, onRequest fault

	faults Faults
	set    int // how often faults were set
	random *rand.Rand
	hits   Hits
}

// NewProxy listens on a free port of the loopback interface.
func NewProxy(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{target: target, listener: l, links: map[*link]struct{}{}}
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
// the connections have been sent. New ones are taken, unless Faults say otherwise.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onAnswer, p.onRequest = pass, pass
	cut := maps.Clone(p.links)
	p.hits.Connections += len(cut)
	for l := range cut {
		l.close() // whose last reader sends the end
	}
	for l := range cut {
		for _, there := p.links[l]; there; _, there = p.links[l] {
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

func (p *Proxy) serve(client net.Conn) {
	l := newLink(client)
	defer p.remove(l)
	if !p.add(l) {
		l.abort()
		return
	}
	server, err := new(net.Dialer).DialContext(l.ctx, "tcp", p.target)
	if err != nil || !p.attach(l, server) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.forward(l) })
	both.Go(func() { p.back(l) })
	both.Wait()
}

// add takes a connection in, or reports that it is refused.
func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	if p.faults.Refuse {
		p.hits.Connections++
		return false
	}
	p.links[l] = struct{}{}
	return true
}

// attach gives a connection its other half, unless it was cut meanwhile.
func (p *Proxy) attach(l *link, server net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.server = server
	if l.ctx.Err() != nil {
		_ = server.Close()
		return false
	}
	return true
}

func (p *Proxy) remove(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.close()
	delete(p.links, l)
	p.gone.Broadcast()
}

// link is one connection through the proxy.
type link struct {
	ctx    context.Context // ends with the connection
	cancel context.CancelFunc
	client net.Conn
	server net.Conn // set under Proxy.mu, before the first byte passes

	// Guarded by Proxy.mu.
	awaiting bool  // the client has asked, and the server has not answered
	silent   bool  // an answer was swallowed: none passes any more
	drawn    int   // Proxy.set when left was drawn
	left     int64 // bytes until it is reset
	torn     bool  // it has been
}

func newLink(client net.Conn) *link {
	l := &link{client: client}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// close closes both halves; twice is fine.
func (l *link) close() {
	l.cancel()
	_ = l.client.Close()
	if l.server != nil {
		_ = l.server.Close()
	}
}

// abort closes both halves with a reset, as a machine does that has lost its connections.
func (l *link) abort() {
	for _, c := range []net.Conn{l.client, l.server} {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // it may be closed already
		}
	}
	l.close()
}
