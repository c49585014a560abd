package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/cmd/node/api"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/storetest"
)

// S5: a damaged copy fails the open with the object named, serves nothing, and leaves the lease free;
// other tenants do not notice; and with the copy repaired everything is there.
func TestS5_DamagedCopiesOverHTTP(t *testing.T) {
	for name, damage := range map[string]struct {
		object string
		change func(data []byte) []byte
	}{
		"corrupt image":       {"snap-000001.db", func(d []byte) []byte { d[len(d)/2] ^= 0xff; return d }},
		"truncated image":     {"snap-000001.db", func(d []byte) []byte { return d[:len(d)-512] }},
		"empty image":         {"snap-000001.db", func([]byte) []byte { return nil }},
		"image of garbage":    {"snap-000001.db", func(d []byte) []byte { return []byte(strings.Repeat("x", len(d))) }},
		"manifest lies":       {"snap-000001.json", func(d []byte) []byte { return []byte(strings.Replace(string(d), `"events":1`, `"events":2`, 1)) }},
		"manifest of garbage": {"snap-000001.json", func([]byte) []byte { return []byte("{") }},
		"pin of garbage":      {"base.json", func([]byte) []byte { return []byte("\x00") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // a damaged copy is looked at once a second
			sh := newShared(t)
			s := sh.start(t, "a")
			t.Cleanup(func() {
				if t.Failed() {
					t.Log(s.log.String())
				}
			})
			one, two := tenantPath(tenantOne), tenantPath(tenantTwo)
			into[appended](t, s.post(one+"/events", `{"kind":"kept","idem_key":"k"}`), 200)
			into[appended](t, s.post(two+"/events", `{"kind":"kept"}`), 200)
			require.Equal(t, 204, s.post(one+"/handoff", "").status)
			file := filepath.Join(sh.root, "durable", "acme", tenantOne, "e00000001", damage.object)
			intact, err := os.ReadFile(file)
			require.NoError(t, err)
			changed := damage.change([]byte(string(intact)))
			require.NotEqual(t, intact, changed)
			require.NoError(t, os.WriteFile(file, changed, 0o600))

			e := refused(t, s.get(one+"/events"), 500, messages.CodeCorrupt)
			require.True(t, strings.HasPrefix(e.Object, "acme/"+tenantOne+"/e00000001/"), "%v", e)
			s.until(func() bool { return !into[view](t, s.get(one), 200).Open })
			into[appended](t, s.post(two+"/events", `{"kind":"unaffected"}`), 200)

			require.NoError(t, os.WriteFile(file, intact, 0o600))
			s.until(func() bool { return s.get(one+"/events").status == 200 })
			got := into[page](t, s.get(one+"/events"), 200)
			require.Len(t, got.Events, 1)
			require.Equal(t, "kept", got.Events[0].Kind)
		})
	}
}

// An outage of a store is a typed 503, and /readyz tells; nothing is lost by it.
func TestOutage_IsTypedAndReadyzTells(t *testing.T) {
	sh := newShared(t)
	clock := storetest.NewManualClock(time.Now())
	s := sh.start(t, "a", func(c *setup) {
		c.api.Now, c.node.Now = clock.Now, clock.Now
		c.node.TTL, c.node.RenewEvery = time.Minute, 100*time.Millisecond
	})
	events := tenantPath(tenantOne) + "/events"
	into[appended](t, s.post(events, `{"kind":"a"}`), 200)
	require.Equal(t, 200, s.get("/readyz").status)
	sh.leases.Down(nil)
	// Remembered for a second, whatever the load balancer's appetite.
	require.Equal(t, 200, s.get("/readyz").status)
	clock.Advance(time.Second)
	a := s.get("/readyz")
	refused(t, a, 503, messages.CodeUnavailable)
	require.NotEmpty(t, a.header.Get("Retry-After"))
	refused(t, s.get(tenantPath(tenantTwo)), 503, messages.CodeUnavailable)
	refused(t, s.post(tenantPath(tenantTwo)+"/events", `{"kind":"a"}`, header(api.TimeoutHeader, "3s")), 503, messages.CodeUnavailable)
	// D3: the holder goes on to its own deadline, then refuses.
	clock.Advance(time.Minute)
	require.Equal(t, messages.ReasonExpiredLocally, refused(t, s.post(events, `{"kind":"b"}`), 409, messages.CodeFenced).Reason)
	sh.leases.Up()
	clock.Advance(time.Second)
	locked := sh.leases.Every(storetest.OpRelease, storetest.Fail(nil)) // as behind a write lock: reads go on
	refused(t, s.get("/readyz"), 503, messages.CodeUnavailable)
	locked()
	clock.Advance(time.Second)
	require.Equal(t, 200, s.get("/readyz").status)
	s.until(func() bool { return s.post(events, `{"kind":"c"}`).status == 200 })
	sh.durable.Down(nil)
	clock.Advance(time.Second)
	refused(t, s.get("/readyz"), 503, messages.CodeUnavailable)
	sh.durable.Up()
}

func TestDeadline_OfTheRequestIsKept(t *testing.T) {
	s := newShared(t).start(t, "a", func(c *setup) { c.api.MaxTimeout = 300 * time.Millisecond })
	wait := tenantPath(tenantOne) + "/commands/wait"
	into[appended](t, s.post(tenantPath(tenantOne)+"/events", `{"kind":"a"}`), 200)
	for _, timeout := range []string{"50ms", "24h"} { // beyond the maximum counts as the maximum
		begun := time.Now()
		a := s.post(wait, `{}`, header(api.TimeoutHeader, timeout))
		require.Contains(t, []int{408, 422, 504}, a.status, "%s", a.body)
		require.Contains(t, string(a.body), string(messages.CodeDeadlineExceeded))
		require.Less(t, time.Since(begun), time.Minute)
	}
	into[appended](t, s.post(tenantPath(tenantOne)+"/events", `{"kind":"b"}`), 200)
}

func TestOverload_IsTypedWithRetryAfter(t *testing.T) {
	at := make(chan struct{})
	s := newShared(t).start(t, "a", func(c *setup) {
		c.node.MaxTenantRequests = 1
		c.node.Commands = map[string]ledgeractor.Command{"wait": func(ctx context.Context, _ *ledgeractor.Tx, _ json.RawMessage) (any, error) {
			close(at)
			<-ctx.Done()
			return nil, ctx.Err()
		}}
	})
	into[appended](t, s.post(tenantPath(tenantOne)+"/events", `{"kind":"a"}`), 200)
	ctx, cancel := context.WithCancel(t.Context())
	var busy sync.WaitGroup
	busy.Go(func() {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+tenantPath(tenantOne)+"/commands/wait", strings.NewReader("{}"))
		if err != nil {
			return
		}
		r.Header.Set("Content-Type", "application/json")
		if response, err := http.DefaultClient.Do(r); err == nil {
			_ = response.Body.Close()
		}
	})
	<-at
	refusal := s.post(tenantPath(tenantOne)+"/events", `{"kind":"b"}`)
	require.Positive(t, refused(t, refusal, 429, messages.CodeOverloaded).RetryAfter)
	require.Equal(t, "1", refusal.header.Get("Retry-After"))
	// Another tenant does not notice.
	into[appended](t, s.post(tenantPath(tenantTwo)+"/events", `{"kind":"a"}`), 200)
	cancel()
	busy.Wait()
	http.DefaultClient.CloseIdleConnections()
}

// H5 and H7 over HTTP: once the node drains, requests are refused as draining, and what looks at the node goes on.
func TestH5_DrainingIsTypedOverHTTP(t *testing.T) {
	s := newShared(t).start(t, "a")
	events := tenantPath(tenantOne) + "/events"
	into[appended](t, s.post(events, `{"kind":"a"}`), 200)
	s.server.Drain()
	for _, a := range []answer{
		s.post(events, `{"kind":"b"}`), s.get(events), s.post(tenantPath(tenantTwo)+"/events", `{"kind":"b"}`),
		s.post(tenantPath(tenantOne)+"/query", `{"sql":"SELECT 1"}`), s.post(tenantPath(tenantOne)+"/forget", ``),
	} {
		refused(t, a, 503, messages.CodeDraining)
		require.Equal(t, "1", a.header.Get("Retry-After"))
	}
	refused(t, s.get("/readyz"), 503, messages.CodeDraining)
	require.Equal(t, 200, s.get("/healthz").status)
	require.Equal(t, 200, s.get("/v1/tenants").status)
	require.Equal(t, 200, s.get("/metrics").status)
	require.True(t, into[view](t, s.get(tenantPath(tenantOne)), 200).Open)
}

// panicking is a lease store whose client library has a bug.
type panicking struct{ api.LeaseReader }

func (panicking) Read(context.Context, messages.Key) (messages.Lease, bool, error) { panic("driver") }

func TestPanic_InAHandlerIsInternalAndLogged(t *testing.T) {
	s := newShared(t).start(t, "a", func(c *setup) { c.api.Leases = panicking{} })
	e := refused(t, s.get(tenantPath(tenantOne)), 500, messages.CodeInternal)
	require.NotContains(t, e.Message, "driver")
	require.Contains(t, s.log.String(), "a handler panicked")
	require.Contains(t, s.log.String(), "failures_test.go")
	into[appended](t, s.post(tenantPath(tenantOne)+"/events", `{"kind":"a"}`), 200)
}

// What a request carries is nowhere in the log: not its key, not its payload, not its SQL (L5).
func TestL5_NothingOfARequestIsLogged(t *testing.T) {
	s := newShared(t).start(t, "a")
	const secret = "s3cr3t"
	path := tenantPath(tenantOne)
	s.post(path+"/events", fmt.Sprintf(`{"kind":"a","idem_key":%q,"payload":{"p":%q},"subject_id":%q,"actor":%q}`, secret, secret, secret, secret))
	s.post(path+"/events", fmt.Sprintf(`{"kind":"a","idem_key":"%s\u0000"}`, secret))
	s.post(path+"/query", fmt.Sprintf(`{"sql":"SELECT %s"}`, secret))
	s.post(path+"/query", fmt.Sprintf(`{"sql":"DELETE FROM events WHERE actor = '%s'"}`, secret))
	s.post(path+"/commands/"+secret, fmt.Sprintf(`{"x":%q}`, secret))
	s.post(path+"/commands/panic", fmt.Sprintf(`{"x":%q}`, secret))
	s.get(path + "/" + secret)
	require.NotEmpty(t, s.log.String())
	require.NotContains(t, s.log.String(), secret)
	var line map[string]any
	require.NoError(t, json.Unmarshal([]byte(strings.SplitN(s.log.String(), "\n", 2)[0]), &line), "the log is JSON")
}
