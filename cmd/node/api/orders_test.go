package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors/client"
	"github.com/leasehold/leasehold/cmd/node/api"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/nats/natsconn"
	"github.com/leasehold/leasehold/stores/storetest"
)

// orders are given to a cluster of two members over the wire, and interrupted at a call of a store that is made for them.
type orders struct {
	nodes   []*service
	leases  *storetest.FaultyLeases
	durable *storetest.FaultyDurable
	client  *client.Client
	strikes sync.Map // messages.Key → *strike
	tenants atomic.Int64
}

// strike holds one call up.
type strike struct {
	step  int64
	when  storetest.Phase
	calls atomic.Int64
	hold  func()
}

func startOrders(t *testing.T) *orders {
	o := &orders{}
	o.nodes = startClusterWith(t, func(c *setup) {
		o.leases, o.durable = c.node.Leases.(*storetest.FaultyLeases), c.node.Durable.(*storetest.FaultyDurable)
	}, "a", "b")
	for _, f := range []*storetest.Faults{&o.leases.Faults, &o.durable.Faults} {
		f.Before(storetest.OpAny, func(_ context.Context, c storetest.Call) { o.strike(c, storetest.Called) })
		f.After(storetest.OpAny, func(_ context.Context, c storetest.Call, _ storetest.Result) { o.strike(c, storetest.Answered) })
	}
	var err error
	o.client, err = client.Dial(t.Context(), client.NATSConfig{Config: natsconn.Config{URL: o.nodes[0].nats.ConnectedUrl()}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, o.client.Close()) })
	return o
}

func (o *orders) strike(c storetest.Call, when storetest.Phase) {
	switch c.Op {
	case storetest.OpPut, storetest.OpForget, storetest.OpDeletePrefix, storetest.OpRelease:
	default:
		return // reads and renewals are no steps of an order
	}
	parts := strings.SplitN(c.Key, "/", 3)
	if len(parts) < 2 {
		return
	}
	if found, ok := o.strikes.Load(messages.Key{Org: messages.OrgID(parts[0]), Tenant: messages.TenantID(parts[1])}); ok {
		if s := found.(*strike); s.when == when && s.calls.Add(1) == s.step {
			s.hold()
		}
	}
}

// tenant makes a tenant with one event, and returns its owner, and another member.
func (o *orders) tenant(ctx context.Context) (key messages.Key, owner, other *service, err error) {
	key = messages.Key{Org: "acme", Tenant: messages.TenantID(fmt.Sprintf("t-%032x", o.tenants.Add(1)))}
	tenant, err := o.client.Tenant(key.Org, key.Tenant)
	if err == nil {
		_, err = tenant.Append(ctx, messages.Event{Kind: "kept"})
	}
	for i, s := range o.nodes {
		if s.node.Serves(key) {
			return key, s, o.nodes[1-i], err
		}
	}
	return key, nil, nil, errors.Join(err, errors.New("nobody serves the tenant"))
}

// done tells from the stores whether an order was carried out.
func (o *orders) done(ctx context.Context, order string, key messages.Key) (bool, error) {
	switch order {
	case "snapshot":
		_, ok, err := o.durable.Inner().Get(ctx, key.ManifestName(1, 1), 1<<20)
		return ok, err
	case "forget":
		lease, _, err := o.leases.Inner().Read(ctx, key)
		return lease.Floor > 0, err
	}
	trail, err := o.leases.Inner().History(ctx, key)
	return slices.ContainsFunc(trail, func(e messages.LeaseEntry) bool { return e.Op == messages.OpRelease }), err
}

// The ways in which an order comes to its tenant. An answer is a code, "" for a success; heard is false where nobody was there to
// hear it.
var waysOfOrders = map[string]func(ctx context.Context, o *orders, owner, other *service, key messages.Key, order string) (code messages.Code, heard bool){
	"HTTP at the owner": func(ctx context.Context, _ *orders, owner, _ *service, key messages.Key, order string) (messages.Code, bool) {
		return orderOverHTTP(ctx, owner, key, order)
	},
	"HTTP at another member": func(ctx context.Context, _ *orders, _, other *service, key messages.Key, order string) (messages.Code, bool) {
		return orderOverHTTP(ctx, other, key, order)
	},
	"NATS": func(ctx context.Context, o *orders, _, _ *service, key messages.Key, order string) (messages.Code, bool) {
		tenant, err := o.client.Tenant(key.Org, key.Tenant)
		if err == nil {
			switch order {
			case "handoff":
				err = tenant.Handoff(ctx)
			case "abandon":
				err = tenant.Abandon(ctx)
			case "forget":
				err = tenant.Forget(ctx)
			case "snapshot":
				_, err = tenant.Snapshot(ctx)
			}
		}
		return messages.CodeOf(err), true
	},
}

// orderOverHTTP leaves the deadline to the server: a client of its own would only go away.
func orderOverHTTP(ctx context.Context, s *service, key messages.Key, order string) (code messages.Code, heard bool) {
	sent := ctx
	timeout := ""
	if deadline, ok := ctx.Deadline(); ok {
		timeout, sent = time.Until(deadline).String(), context.WithoutCancel(ctx)
	}
	r, err := http.NewRequestWithContext(sent, http.MethodPost, s.url+tenantPath(string(key.Tenant))+"/"+order, nil)
	if err != nil {
		return messages.CodeInternal, true
	}
	r.Header.Set("Content-Type", "application/json")
	if timeout != "" {
		r.Header.Set(api.TimeoutHeader, timeout)
	}
	response, err := s.client.Do(r)
	if err != nil {
		return "", false
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", false
	}
	if response.StatusCode < 300 {
		return "", true
	}
	e := &messages.Error{}
	if json.Unmarshal(body, e) != nil {
		return messages.CodeInternal, true
	}
	return e.Code, true
}

// together runs what mostly waits, many at a time, however few processors there are.
func together(t *testing.T, cases map[string]func() error) {
	t.Helper()
	var wg sync.WaitGroup
	slots := make(chan struct{}, 32)
	for name, run := range cases {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if err := run(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	wg.Wait()
}

// TestQ1_AnOrderOverTheWireIsAnsweredWithItsOutcomeOrUnknownOutcome: by each way, interrupted at each call of a store, before it
// takes effect and after. What an answer says must be true when everything has come to rest.
func TestQ1_AnOrderOverTheWireIsAnsweredWithItsOutcomeOrUnknownOutcome(t *testing.T) {
	o := startOrders(t)
	cases := map[string]func() error{}
	var answers sync.Map
	for _, order := range []string{"handoff", "abandon", "forget", "snapshot"} {
		steps := int64(0)
		for way, give := range waysOfOrders {
			key, owner, other, err := o.tenant(t.Context())
			require.NoError(t, err)
			count := &strike{when: storetest.Called}
			o.strikes.Store(key, count)
			code, heard := give(t.Context(), o, owner, other, key, order)
			require.True(t, heard)
			require.Empty(t, code, "%s by %s", order, way)
			steps = count.calls.Load() // before the judge opens the tenant again
			require.Positive(t, steps)
			require.NoError(t, o.judge(t.Context(), order, key, code, heard))
		}
		for way, give := range waysOfOrders {
			for _, gone := range []bool{false, true} {
				for step := range steps {
					for _, when := range []storetest.Phase{storetest.Called, storetest.Answered} {
						cases[fmt.Sprintf("%s, %s, the client goes away: %v, call %d %s", order, way, gone, step+1, when)] = func() error {
							key, owner, other, err := o.tenant(t.Context())
							if err != nil {
								return err
							}
							ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
							if gone {
								ctx, cancel = context.WithCancel(t.Context())
							}
							defer cancel()
							over := make(chan struct{})
							o.strikes.Store(key, &strike{step: step + 1, when: when, hold: func() {
								defer close(over)
								if gone {
									cancel()
								}
								time.Sleep(600 * time.Millisecond)
							}})
							code, heard := give(ctx, o, owner, other, key, order)
							select { // what it has done, it will have done by then; a slow machine has done nothing yet, and is right to say so
							case <-over:
							case <-time.After(600 * time.Millisecond):
							}
							time.Sleep(100 * time.Millisecond)
							o.strikes.Delete(key)
							answers.Store(fmt.Sprintf("%s: %q, heard: %v", order, code, heard), true)
							return o.judge(t.Context(), order, key, code, heard)
						}
					}
				}
			}
		}
	}
	together(t, cases)
	answers.Range(func(answer, _ any) bool { t.Log(answer); return true })
}

// judge compares an answer with what was done, and looks whether the tenant goes on.
func (o *orders) judge(ctx context.Context, order string, key messages.Key, code messages.Code, heard bool) error {
	done, err := o.done(ctx, order, key)
	switch {
	case err != nil:
		return err
	case !heard || code == messages.CodeUnknownOutcome:
	case code == "" && !done:
		return errors.New("it was not done")
	case code != "" && done:
		return fmt.Errorf("%s says that nothing was done", code)
	}
	tenant, err := o.client.Tenant(key.Org, key.Tenant)
	if err != nil {
		return err
	}
	if _, err := tenant.Append(ctx, messages.Event{Kind: "goes on"}); err != nil {
		return err
	}
	events, _, err := tenant.Events(ctx, 0, 10)
	kept := order == "handoff" || order == "snapshot" || heard && code != "" && code != messages.CodeUnknownOutcome
	if err == nil && len(events) != 2 && kept {
		err = fmt.Errorf("%d events: what was acknowledged is lost", len(events))
	}
	return err
}

// The same when the owner is shut down in the middle of them all, each at its point of no return, and has less time than it needs.
// Nobody is told that the tenant is draining, or the node closed, when it was done.
func TestQ1_AnOrderOverTheWireThatMeetsAShutdown(t *testing.T) {
	step := map[string]int64{"handoff": 3, "abandon": 1, "forget": 3, "snapshot": 2} // the release, the floor, the manifest
	for _, when := range []storetest.Phase{storetest.Called, storetest.Answered} {
		t.Run(string(when), func(t *testing.T) {
			o := startOrders(t)
			owner, other := o.nodes[0], o.nodes[1]
			reached, goOn := make(chan struct{}, len(step)*len(waysOfOrders)), make(chan struct{})
			cases := map[string]func() error{}
			for order, step := range step {
				for way, give := range waysOfOrders {
					key, at, _, err := o.tenant(t.Context())
					for ; err == nil && at != owner; key, at, _, err = o.tenant(t.Context()) {
					}
					require.NoError(t, err)
					cases[order+", "+way] = func() error {
						ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
						defer cancel()
						o.strikes.Store(key, &strike{step: step, when: when, hold: func() {
							reached <- struct{}{}
							<-goOn
						}})
						code, heard := give(ctx, o, owner, other, key, order)
						select {
						case <-goOn:
						case <-ctx.Done():
						}
						time.Sleep(200 * time.Millisecond)
						done, err := o.done(t.Context(), order, key)
						switch {
						case err != nil:
							return err
						case !heard:
							return errors.New("there was no answer")
						case code == "" && !done:
							return errors.New("it was not done")
						// A shutdown hands off and saves too, and that is not the order.
						case code != "" && code != messages.CodeUnknownOutcome && done && (order == "forget" || order == "abandon"):
							return fmt.Errorf("%s says that nothing was done", code)
						}
						return nil
					}
				}
			}
			var shutdown sync.WaitGroup
			shutdown.Go(func() {
				defer close(goOn)
				// A slow machine has fewer of them in the middle.
				late, stop := context.WithTimeout(context.Background(), 3*time.Second)
				defer stop()
				for range cases {
					select {
					case <-reached:
					case <-late.Done():
					}
				}
				short, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
				defer cancel()
				shutdown.Go(func() { _ = owner.node.Shutdown(short) })
				time.Sleep(500 * time.Millisecond)
			})
			together(t, cases)
			shutdown.Wait()
		})
	}
}
