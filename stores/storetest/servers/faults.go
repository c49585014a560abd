package servers

import (
	"math"
	"math/rand/v2"
	"time"
)

// Faults are what a Proxy does until it is told otherwise. The zero Faults lets everything pass. An answer is what
// a server sends after a client has asked, up to the client's next request.
type Faults struct {
	// Refuse closes each new connection at once, with a reset. CutAll ends those that are there.
	Refuse bool
	// Silence swallows every answer. The requests arrive, and the connections stay open. One that has lost an answer
	// stays silent also after the fault is lifted, because what came next would be read as that answer.
	Silence bool
	// Lose is the share of answers, from 0 to 1, that are swallowed with their connection closed.
	Lose float64
	// DelayMin and DelayMax bound the time, chosen at random, by which an answer is held up. Those of one connection keep
	// their order; requests are not held up.
	DelayMin, DelayMax time.Duration
	// ResetWithin resets each connection, open or new, when so many bytes at most have passed in both directions
	// together. How many is chosen at random, and every order of magnitude is as likely; 0: none is reset.
	ResetWithin int64
	// Seed decides what is left to chance.
	Seed uint64
}

// Hits counts what the faults of a Proxy have hit.
type Hits struct {
	Connections int   // cut, refused or reset
	Answers     int   // swallowed, lost or held up
	Bytes       int64 // that were swallowed, lost or held up, or cut off by a reset
}

// Plus returns the sum of two counts.
func (h Hits) Plus(o Hits) Hits {
	return Hits{h.Connections + o.Connections, h.Answers + o.Answers, h.Bytes + o.Bytes}
}

// Minus returns what was hit after o was counted.
func (h Hits) Minus(o Hits) Hits {
	return Hits{h.Connections - o.Connections, h.Answers - o.Answers, h.Bytes - o.Bytes}
}

// Set puts faults in the place of those that there were.
func (p *Proxy) Set(f Faults) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults, p.random = f, rand.New(rand.NewPCG(f.Seed, 0x9407))
	p.set++
}

// Hits returns what was hit since the proxy began, whatever the faults were.
func (p *Proxy) Hits() Hits {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hits
}

type fault int

const (
	pass  fault = iota
	cut         // the connection is closed instead
	drop        // they vanish: the connection stays open
	tear        // some of them pass, then the connection is reset
	delay       // they pass later
)

// fate is what becomes of some bytes.
type fate struct {
	fault fault
	n     int           // with tear: so many pass
	after time.Duration // with delay
}

// meet counts bytes that have come in, and decides what becomes of them.
func (p *Proxy) meet(l *link, request bool, n int) fate {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := request != l.awaiting // of a request, or of an answer to one
	l.awaiting = request
	planned := p.onAnswer
	if request {
		planned, p.onRequest = p.onRequest, pass
		if first {
			p.trips++
		}
	} else {
		p.onAnswer = pass
		if planned == drop || p.faults.Silence {
			l.silent = true
		}
	}
	switch {
	case planned == cut || l.torn:
		return fate{fault: cut}
	case !request && l.silent:
		p.hitAnswer(first, n)
		return fate{fault: drop}
	case p.resets(l, n):
		l.torn = true
		p.hits.Connections++
		p.hits.Bytes += int64(n) - l.left
		return fate{fault: tear, n: int(l.left)}
	case request || !first:
	case p.faults.Lose > 0 && p.random.Float64() < p.faults.Lose:
		p.hitAnswer(first, n)
		return fate{fault: cut}
	case p.faults.DelayMax > 0:
		p.hitAnswer(first, n)
		return fate{fault: delay, after: p.faults.DelayMin + time.Duration(p.random.Int64N(int64(max(p.faults.DelayMax-p.faults.DelayMin, 0))+1))}
	}
	return fate{fault: pass}
}

// hitAnswer counts bytes of an answer that did not pass as they should have.
func (p *Proxy) hitAnswer(first bool, n int) {
	if first {
		p.hits.Answers++
	}
	p.hits.Bytes += int64(n)
}

// resets reports whether a connection ends within the next n bytes: after l.left of them. Else it takes them off.
func (p *Proxy) resets(l *link, n int) bool {
	if p.faults.ResetWithin <= 0 {
		return false
	}
	if l.drawn != p.set {
		l.drawn, l.left = p.set, int64(math.Exp(p.random.Float64()*math.Log(float64(p.faults.ResetWithin)))) // from 1 on
	}
	if int64(n) >= l.left {
		return true
	}
	l.left -= int64(n)
	return false
}

const (
	chunk = 64 << 10
	// queued is how many chunks of answers may be on their way; beyond it the server has to wait.
	queued = 64
)

// forward passes a client's requests on, until the connection ends. Whoever closes its side ends the other: databases
// have no use for half a connection.
func (p *Proxy) forward(l *link) {
	defer l.close()
	buffer := make([]byte, chunk)
	for {
		n, err := l.client.Read(buffer)
		if n > 0 {
			f := p.meet(l, true, n)
			switch f.fault {
			case cut:
				return
			case tear:
				_, _ = l.server.Write(buffer[:f.n]) // it may be gone
				l.abort()
				return
			}
			if _, err := l.server.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// piece is a part of an answer on its way to the client.
type piece struct {
	data []byte
	due  *time.Timer // nil: at once
}

// back passes a server's answers on, until the connection ends. A second goroutine writes them, so that those that
// are held up do not hold up the reading: a delay is one of each answer, and not of all after it.
func (p *Proxy) back(l *link) {
	later, written := make(chan piece, queued), make(chan struct{})
	go func() {
		defer close(written)
		l.deliver(later)
	}()
	end := l.close
	defer func() {
		close(later)
		<-written // what came before the end arrives before it
		end()
	}()
	buffer := make([]byte, chunk)
	for {
		n, err := l.server.Read(buffer)
		if n > 0 {
			f := p.meet(l, false, n)
			next := piece{data: append([]byte(nil), buffer[:n]...)}
			switch f.fault {
			case cut:
				return
			case tear:
				next.data, end = next.data[:f.n], l.abort
			case delay:
				next.due = time.NewTimer(f.after)
			}
			if f.fault != drop {
				select {
				case later <- next:
				case <-l.ctx.Done():
					return
				}
			}
			if f.fault == tear {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// deliver writes answers to the client, in their order and each when it is due.
func (l *link) deliver(later <-chan piece) {
	for next := range later {
		if next.due != nil {
			select {
			case <-next.due.C:
			case <-l.ctx.Done():
				next.due.Stop()
				return
			}
		}
		if _, err := l.client.Write(next.data); err != nil {
			l.close()
			return
		}
	}
}
