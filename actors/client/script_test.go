package client_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors/client"
	"github.com/leasehold/leasehold/messages"
)

const (
	nodeA = "a#1"
	nodeB = "b#1"
	nodeC = "c#1"
)

var tenantKey = messages.Key{Org: "acme", Tenant: "t-3129611eac9be1d5994a2b216b06ed27"}

// step is what becomes of one attempt.
type step func(ctx context.Context, req *messages.Request) (*messages.Reply, error)

// sent is one attempt as the transport saw it.
type sent struct {
	target string
	req    messages.Request
	at     time.Duration // since the transport was made
	until  time.Duration // when it was answered
	left   time.Duration // to the attempt's own deadline
}

// script is a Transport that plays steps; the last one is played again and again. The routing loop is about what
// members answer and when, down to answers that no member of ours gives: that is written down here.
type script struct {
	steps []step
	home  string // if set, it is who any member names; these questions and answers are not steps, and not in sent
	begun time.Time

	mu   sync.Mutex
	sent []sent
}

func play(steps ...step) *script { return &script{steps: steps, begun: time.Now()} }

func (s *script) Send(ctx context.Context, target string, req *messages.Request) (*messages.Reply, error) {
	if target == "" {
		onlyLocates(req)
		if s.home != "" {
			return &messages.Reply{Owner: s.home}, nil
		}
	}
	s.mu.Lock()
	i := len(s.sent)
	deadline, _ := ctx.Deadline()
	s.sent = append(s.sent, sent{target: target, req: *req, at: time.Since(s.begun), left: time.Until(deadline)})
	s.mu.Unlock()
	reply, err := s.steps[min(i, len(s.steps)-1)](ctx, req)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent[i].until = time.Since(s.begun)
	return reply, err
}

// onlyLocates panics unless a request to any member is a question who should be asked, and says no more than it must.
func onlyLocates(req *messages.Request) {
	question := messages.Request{Version: messages.WireVersion, Action: messages.ActionLocate, Key: req.Key, Avoid: req.Avoid, TimeoutMS: req.TimeoutMS}
	if !reflect.DeepEqual(question, *req) {
		panic(fmt.Sprintf("any member is sent more than a question: %+v", *req))
	}
}

func (s *script) targets() (targets []string) {
	for _, one := range s.sent {
		targets = append(targets, one.target)
	}
	return targets
}

// waits are the pauses between an answer and the next attempt.
func (s *script) waits() (waits []time.Duration) {
	for i := 1; i < len(s.sent); i++ {
		waits = append(waits, s.sent[i].at-s.sent[i-1].until)
	}
	return waits
}

// ok is a success of an owner at an epoch and a seq.
func ok(owner string, epoch uint64, seq int64) step {
	return func(_ context.Context, req *messages.Request) (*messages.Reply, error) {
		if req.Action == messages.ActionLocate {
			return &messages.Reply{Owner: owner}, nil
		}
		reply := &messages.Reply{Owner: owner, Epoch: epoch, Seq: seq}
		switch req.Action {
		case messages.ActionAppend:
			for i := range req.Events {
				reply.Appended = append(reply.Appended, messages.Appended{Seq: seq - int64(len(req.Events)-1-i)})
			}
		case messages.ActionQuery:
			reply.Result = &messages.Result{}
		case messages.ActionSnapshot:
			reply.Manifest = &messages.Manifest{Epoch: epoch, LastSeq: seq}
		case messages.ActionHandoff, messages.ActionAbandon, messages.ActionForget:
			reply.Seq = 0
		}
		return reply, nil
	}
}

// is is a member's answer to the question who should be asked.
func is(owner string) step { return with(&messages.Reply{Owner: owner}) }

// no is a refusal by a member.
func no(by string, e messages.Error) step {
	return func(context.Context, *messages.Request) (*messages.Reply, error) {
		refusal := e
		return &messages.Reply{Owner: by, Error: &refusal}, nil
	}
}

// with is what a reply is in the words of a test.
func with(reply *messages.Reply) step {
	return func(context.Context, *messages.Request) (*messages.Reply, error) { return reply, nil }
}

// undelivered, broken and silence are the failures on the way.
func undelivered(context.Context, *messages.Request) (*messages.Reply, error) {
	return nil, fmt.Errorf("nobody: %w", client.ErrNotDelivered)
}

var errCut = errors.New("cut")

func broken(context.Context, *messages.Request) (*messages.Reply, error) { return nil, errCut }

func silence(ctx context.Context, _ *messages.Request) (*messages.Reply, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// The requests of the tests: repeatable or not, reading, and closing the tenant.
var (
	once  = messages.Request{Action: messages.ActionAppend, Key: tenantKey, Events: []messages.Event{{Kind: "k", IdemKey: "1"}}}
	risky = messages.Request{Action: messages.ActionAppend, Key: tenantKey, Events: []messages.Event{{Kind: "k", IdemKey: "1"}, {Kind: "k"}}}
	read  = messages.Request{Action: messages.ActionQuery, Key: tenantKey, SQL: "SELECT 1"}
	save  = messages.Request{Action: messages.ActionSnapshot, Key: tenantKey}
	hand  = messages.Request{Action: messages.ActionHandoff, Key: tenantKey}
	purge = messages.Request{Action: messages.ActionForget, Key: tenantKey}
)

// newClient makes a client that hedges only if it is told when: most tests are about one attempt after the other.
func newClient(t *testing.T, s client.Transport, cfg client.Config) *client.Client {
	t.Helper()
	if cfg.HedgeAfter == 0 {
		cfg.HedgeAfter = -1
	}
	c, err := client.New(s, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// knowing makes a client that remembers an owner.
func knowing(t *testing.T, s *script, owner string) *client.Client {
	t.Helper()
	if owner == "" {
		return newClient(t, s, client.Config{})
	}
	steps, home := s.steps, s.home
	s.steps, s.home = []step{ok(owner, 1, 1)}, owner
	c := newClient(t, s, client.Config{})
	require.Nil(t, c.Do(t.Context(), &read).Error)
	s.steps, s.home, s.sent = steps, home, nil
	require.Equal(t, owner, c.Owner(tenantKey))
	return c
}
