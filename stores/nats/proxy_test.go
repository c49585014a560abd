package nats_test

import (
	"bytes"
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// proxy stands between a store and its server, and cuts the connection at the worst moment.
type proxy struct {
	listener net.Listener
	target   string

	mu      sync.Mutex
	armed   []byte // cut when a request that holds this was passed on, and something comes back
	fired   bool   // that request has gone
	cuts    int
	cutting chan struct{} // closed at the cut
	holding []byte        // the next request that holds this is kept
	held    []byte        // that request; it is passed on just before the next one that holds the text
	landed  int           // how many were passed on late
	conns   map[net.Conn]bool
	wg      sync.WaitGroup
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{listener: l, target: target, conns: map[net.Conn]bool{}}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		_ = p.listener.Close()
		p.cut()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) url() string { return fmt.Sprintf("nats://%s", p.listener.Addr()) }

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
		p.wg.Go(func() { p.pipe(server, client, true) })
		p.wg.Go(func() { p.pipe(client, server, false) })
	}
}

// loseAnswerTo cuts the connection once, when the server answers a request that holds text. The channel
// is closed then.
func (p *proxy) loseAnswerTo(text string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed, p.fired, p.cutting = []byte(text), false, make(chan struct{})
	return p.cutting
}

// landsBetween keeps the next request that holds text back until the same text is asked for again, and passes both on then.
func (p *proxy) landsBetween(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holding, p.held = []byte(text), nil
}

// late returns how many requests were passed on late.
func (p *proxy) late() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.landed
}

// reorder returns what is passed on in place of a request.
func (p *proxy) reorder(request []byte) []byte {
	switch {
	case p.holding == nil || !bytes.Contains(request, p.holding):
		return request
	case p.held == nil:
		p.held = bytes.Clone(request)
		return nil
	}
	both := append(p.held, request...)
	p.holding, p.held = nil, nil
	p.landed++
	return both
}

// cut closes all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
	clear(p.conns)
}

// lost returns how many answers were lost.
func (p *proxy) lost() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

func (p *proxy) pipe(to, from net.Conn, requests bool) {
	defer func() { _, _ = to.Close(), from.Close() }()
	buf := make([]byte, 1<<20)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			p.mu.Lock()
			lose, passed := false, buf[:n]
			if requests {
				passed = p.reorder(passed)
			}
			if requests && p.armed != nil && bytes.Contains(buf[:n], p.armed) {
				p.fired = true
			} else if !requests && p.fired {
				lose, p.armed, p.fired = true, nil, false
				p.cuts++
				close(p.cutting)
			}
			p.mu.Unlock()
			if lose {
				return
			}
			if _, err := to.Write(passed); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
