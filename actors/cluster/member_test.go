package cluster_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/actors/client"
	"github.com/leasehold/leasehold/actors/cluster"
	"github.com/leasehold/leasehold/messages"
)

func TestATenantIsReachedThroughAnyMember(t *testing.T) {
	f := newFleet(t)
	a, b, c := f.join("a"), f.join("b"), f.join("c")
	f.see(3, a, b, c)
	ctx := within(t, time.Minute)
	for i := range 9 {
		for _, p := range []*part{a, b, c} {
			_, err := f.tenant(p, i).Append(ctx, messages.Event{Kind: "k", IdemKey: p.node.Name()})
			require.NoError(t, err)
		}
		outside := f.tenant(f.client(), i)
		_, err := outside.Append(ctx, messages.Event{Kind: "k"})
		require.NoError(t, err)
		events, more, err := outside.Events(ctx, 0, 10)
		require.NoError(t, err)
		require.False(t, more)
		require.Len(t, events, 4)
		out, err := outside.Call(ctx, "count", nil)
		require.NoError(t, err)
		require.Equal(t, json.RawMessage("4"), out)
		require.Len(t, f.grants(i), 1)
		require.EqualValues(t, messages.Seen{Epoch: 1, Seq: 4}, outside.Seen())
	}
	for _, p := range []*part{a, b, c} {
		require.NotEmpty(t, p.node.Serving(), "the tenants are spread")
	}
}

// Sixteen clients, three nodes, one new tenant: one activation.
func TestSixteenClientsOnOneNewTenantActivateItOnce(t *testing.T) {
	f := newFleet(t)
	parts := []*part{f.join("a"), f.join("b"), f.join("c")}
	f.see(3, parts...)
	ctx := within(t, time.Minute)
	for tenant := range 5 {
		var all sync.WaitGroup
		start := make(chan struct{})
		owners := make([]string, 16)
		for i := range 16 {
			var via interface {
				Tenant(messages.OrgID, messages.TenantID) (*client.Tenant, error)
			} = parts[i%3]
			if i%4 == 3 {
				via = f.client()
			}
			handle := f.tenant(via, tenant)
			all.Go(func() {
				<-start
				_, err := handle.Append(ctx, messages.Event{Kind: "k", IdemKey: fmt.Sprint(i)})
				if err != nil {
					t.Error(err)
				}
				owners[i] = fmt.Sprint(handle.Seen().Epoch)
			})
		}
		close(start)
		all.Wait()
		require.Equal(t, strings.Repeat("1", 16), strings.Join(owners, ""))
		require.Len(t, f.grants(tenant), 1, "one activation")
	}
}

// load appends to tenants from outside until it is stopped, each event with an idempotency key, and checks that every one is there
// exactly once.
type load struct {
	t       testing.TB
	f       *fleet
	stop    chan struct{}
	writers sync.WaitGroup
	failed  atomic.Int64
	handles []*client.Tenant
	done    []int64 // by tenant; its writer's
	gaps    []time.Duration
}

func (f *fleet) load(tenants int, pause time.Duration) *load {
	f.t.Helper()
	l := &load{t: f.t, f: f, stop: make(chan struct{}), done: make([]int64, tenants), gaps: make([]time.Duration, tenants)}
	c := f.client()
	for i := range tenants {
		l.handles = append(l.handles, f.tenant(c, i))
	}
	for i, h := range l.handles {
		l.writers.Go(func() {
			ctx := within(f.t, 60*time.Second)
			ticker := time.NewTicker(pause)
			defer ticker.Stop()
			last := time.Now()
			for {
				select {
				case <-ticker.C:
				case <-l.stop:
					return
				}
				if _, err := h.Append(ctx, messages.Event{Kind: "k", IdemKey: fmt.Sprint(l.done[i])}); err != nil {
					f.t.Log("tenant", i, "append", l.done[i], err)
					l.failed.Add(1)
					continue
				}
				l.done[i]++
				l.gaps[i] = max(l.gaps[i], time.Since(last))
				last = time.Now()
			}
		})
	}
	return l
}

func (l *load) end() (longest time.Duration) {
	l.t.Helper()
	close(l.stop)
	l.writers.Wait()
	require.Zero(l.t, l.failed.Load(), "failed requests")
	total := int64(0)
	for i, h := range l.handles {
		events, _, err := h.Events(within(l.t, time.Minute), 0, 10_000)
		require.NoError(l.t, err)
		require.Len(l.t, events, int(l.done[i]), "tenant %d: lost or doubled", i)
		for n, e := range events {
			require.Equal(l.t, fmt.Sprint(n), e.IdemKey)
		}
		longest = max(longest, l.gaps[i])
		total += l.done[i]
	}
	l.t.Logf("%d events, longest gap %v", total, longest.Round(time.Millisecond))
	return longest
}

func TestAMemberThatLeavesLosesNothing(t *testing.T) {
	f := newFleet(t)
	a, b, c := f.join("a"), f.join("b"), f.join("c")
	f.see(3, a, b, c)
	l := f.load(30, 20*time.Millisecond)
	require.Eventually(t, func() bool { return len(a.node.Serving())+len(b.node.Serving())+len(c.node.Serving()) == 30 }, time.Minute, 10*time.Millisecond)
	require.NotEmpty(t, a.node.Serving())
	require.NoError(t, a.Leave(within(t, time.Minute)))
	require.Empty(t, a.node.Serving(), "they have been moved, not merely given up")
	require.True(t, a.Leaving())
	a.stop(t)
	f.see(2, b, c)
	l.end()
	require.Eventually(t, func() bool { return len(b.node.Serving())+len(c.node.Serving()) == 30 }, time.Minute, 10*time.Millisecond)
}

// The last server must not stop before the last handoff.
func TestWhoDepartsWaitsForThoseWhoStillLeave(t *testing.T) {
	f := newFleet(t)
	a, b := f.join("a"), f.join("b")
	f.see(2, a, b)
	ctx := within(t, time.Minute)
	require.NoError(t, a.Depart(ctx), "nobody else leaves")
	f.see(1, b)
	c := f.join("c")
	f.see(2, b, c)
	require.NoError(t, b.Leave(ctx))
	require.Eventually(t, func() bool {
		return c.Members()[0].State == cluster.StateLeaving || c.Members()[1].State == cluster.StateLeaving
	}, time.Minute, time.Millisecond)
	require.NoError(t, c.Leave(ctx))
	departed := make(chan error, 1)
	go func() { departed <- c.Depart(ctx) }()
	select {
	case <-departed:
		t.Fatal("b still leaves")
	case <-time.After(300 * time.Millisecond): // three heartbeats
	}
	require.NoError(t, b.Depart(ctx), "c is gone already, as far as requests are concerned")
	require.NoError(t, <-departed)
}

func TestANewMemberGetsItsShareWithoutAFailure(t *testing.T) {
	f := newFleet(t)
	a, b := f.join("a"), f.join("b")
	f.see(2, a, b)
	l := f.load(30, 20*time.Millisecond)
	require.Eventually(t, func() bool { return len(a.node.Serving())+len(b.node.Serving()) == 30 }, time.Minute, 10*time.Millisecond)
	c := f.join("c")
	require.Eventually(t, func() bool {
		return len(c.node.Serving()) >= 5 && len(a.node.Serving())+len(b.node.Serving())+len(c.node.Serving()) == 30
	}, time.Minute, 10*time.Millisecond)
	l.end()
}

func TestAKilledMembersTenantsAreServedElsewhereAfterItsLease(t *testing.T) {
	// A machine that stands still makes them late once. What makes them late every time is a fault.
	const most = shortTTL + 500*time.Millisecond // the last renewal was before the kill
	for round := 1; ; round++ {
		took := killOne(t)
		if took < most {
			return
		}
		t.Logf("it took %v", took)
		require.Less(t, round, 4, "late every time")
	}
}

// killOne kills a member of three, and returns how long it took until all of its tenants were served elsewhere.
func killOne(t *testing.T) time.Duration {
	t.Helper()
	f := newFleet(t)
	a, b, c := f.join("a", quick), f.join("b", quick), f.join("c", quick)
	f.see(3, a, b, c)
	outside := f.client()
	ctx := within(t, time.Minute)
	var its []int
	before := map[int]int{}
	for i := range 12 {
		h := f.tenant(outside, i)
		_, err := h.Append(ctx, messages.Event{Kind: "k", IdemKey: "1"})
		require.NoError(t, err)
		_, err = h.Snapshot(ctx)
		require.NoError(t, err)
		if a.node.Has(f.key(i)) {
			its = append(its, i)
			before[i] = len(f.grants(i))
		}
	}
	require.NotEmpty(t, its)
	a.kill()
	killed := time.Now()
	var all sync.WaitGroup
	for _, i := range its {
		all.Go(func() {
			if _, err := f.tenant(outside, i).Append(ctx, messages.Event{Kind: "k", IdemKey: "2"}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	took := time.Since(killed)
	for _, i := range its {
		require.Greater(t, len(f.grants(i)), before[i])
	}
	return took
}

func TestWhatIsOpenNowhereIsNotOpenedToBeClosed(t *testing.T) {
	f := newFleet(t)
	f.see(2, f.join("a"), f.join("b"))
	h := f.tenant(f.client(), 1)
	require.ErrorIs(t, h.Handoff(within(t, time.Minute)), messages.ErrUnknownTenant)
	require.ErrorIs(t, h.Abandon(within(t, time.Minute)), messages.ErrUnknownTenant)
	require.Empty(t, f.grants(1))
	_, err := h.Append(within(t, time.Minute), messages.Event{Kind: "k"})
	require.NoError(t, err)
	require.NoError(t, h.Handoff(within(t, time.Minute)))
	require.ErrorIs(t, h.Handoff(within(t, time.Minute)), messages.ErrNotFound)
}

func TestAnAnswerThatIsTooLargeIsHalvedOrRefused(t *testing.T) {
	f := newFleet(t)
	f.join("a", func(n *actors.Config, _ *cluster.Config) { n.Limits.MaxBytes = 64 << 20 })
	// It asks once, however long the many megabytes take.
	h := f.tenant(f.client(func(c *client.Config) { c.AttemptTimeout, c.HedgeAfter = 5*time.Minute, -1 }), 1)
	ctx := within(t, 5*time.Minute)
	big := json.RawMessage(`"` + strings.Repeat("x", 1_000_000) + `"`)
	for range 9 {
		_, err := h.Append(ctx, messages.Event{Kind: "k", Payload: big})
		require.NoError(t, err)
	}
	var seqs []int64
	after, pages := int64(0), 0
	for more := true; more; pages++ {
		var events []messages.StoredEvent
		var err error
		events, more, err = h.Events(ctx, after, 100)
		require.NoError(t, err)
		require.NotEmpty(t, events)
		for _, e := range events {
			seqs = append(seqs, e.Seq)
		}
		after = events[len(events)-1].Seq
	}
	require.Equal(t, []int64{1, 2, 3, 4, 5, 6, 7, 8, 9}, seqs)
	require.Greater(t, pages, 1)
	_, err := h.Query(ctx, "SELECT payload FROM events")
	require.ErrorIs(t, err, messages.ErrTooLarge)
	batch := make([]messages.Event, 10)
	for i := range batch {
		batch[i] = messages.Event{Kind: "k", Payload: big}
	}
	_, err = h.AppendAll(ctx, batch)
	require.ErrorIs(t, err, messages.ErrTooLarge, "said before it is sent")
}

func TestGarbageOnTheSubjectsHarmsNobody(t *testing.T) {
	f := newFleet(t)
	a := f.join("a")
	conn := f.connect()
	subjects, err := client.NewSubjects("")
	require.NoError(t, err)
	deep := strings.Repeat("[", 100_000)
	for _, subject := range []string{subjects.AnyRequest(), subjects.Request(a.node.Owner()), subjects.Members(), subjects.Member(a.node.Owner())} {
		for _, data := range []string{"", "{", "null", "[]", `{"v":1}`, `{"v":2,"action":"append"}`, `{"kind":"take"}`, `{"kind":"expect","from":"x","key":{"org":"../..","tenant":"t-"}}`, deep,
			`{"v":1,"timeout_ms":-5,"action":"append","key":{"org":"acme","tenant":"t-3129611eac9be1d5994a2b216b06ed27"},"events":[{"kind":"k"}]}`,
			`{"v":1,"timeout_ms":9223372036854775807,"action":"events","key":{"org":"acme","tenant":"t-3129611eac9be1d5994a2b216b06ed27"},"after":-1}`} {
			require.NoError(t, conn.Publish(subject, []byte(data)))
			if subject != subjects.Members() {
				answer, err := conn.Request(subject, []byte(data), time.Minute)
				require.NoError(t, err, "%s %.40s", subject, data)
				require.Contains(t, string(answer.Data), "error", "%s %.40s", subject, data)
			}
		}
	}
	_, err = f.tenant(f.client(), 1).Append(within(t, time.Minute), messages.Event{Kind: "k"})
	require.NoError(t, err)
	require.Len(t, a.Members(), 1)
}

// Whoever may send requests must not have a member write for him into a stream, or speak to the members.
func TestAnAnswerGoesToAnInboxOnly(t *testing.T) {
	f := newFleet(t)
	a := f.join("a")
	conn := f.connect()
	subjects, err := client.NewSubjects("")
	require.NoError(t, err)
	var heard atomic.Int64
	for _, subject := range []string{"leasehold.leasehold.objects.>", "$KV.>", "leasehold.leasehold.members.x"} {
		_, err := conn.Subscribe(subject, func(*natsgo.Msg) { heard.Add(1) })
		require.NoError(t, err)
	}
	for _, reply := range []string{"leasehold.leasehold.objects.m.acme.x", "$KV.leasehold-leases.x", "leasehold.leasehold.members.x"} {
		for _, subject := range []string{subjects.AnyRequest(), subjects.Request(a.node.Owner()), subjects.Member(a.node.Owner())} {
			require.NoError(t, conn.PublishRequest(subject, reply, []byte("{}")))
		}
	}
	// What was sent before is answered before.
	_, err = conn.Request(subjects.Request(a.node.Owner()), []byte("{}"), time.Minute)
	require.NoError(t, err)
	_, err = conn.Request(subjects.Member(a.node.Owner()), []byte("{}"), time.Minute)
	require.NoError(t, err)
	require.NoError(t, conn.Flush())
	require.Zero(t, heard.Load())
}

func TestJoinRefusesWhatCannotWork(t *testing.T) {
	_, err := cluster.Join(t.Context(), cluster.Config{})
	require.ErrorIs(t, err, messages.ErrInvalidArgument)
	f := newFleet(t)
	a := f.join("a")
	for name, change := range map[string]func(*cluster.Config){
		"cluster":    func(c *cluster.Config) { c.Cluster = "a.b" },
		"heartbeat":  func(c *cluster.Config) { c.HeartbeatEvery = -1 },
		"dead after": func(c *cluster.Config) { c.HeartbeatEvery, c.DeadAfter = time.Second, time.Second },
		"moves":      func(c *cluster.Config) { c.MovesPerSecond = -1 },
	} {
		cfg := cluster.Config{Node: a.node, Conn: a.conn}
		change(&cfg)
		_, err := cluster.Join(t.Context(), cfg)
		require.ErrorIs(t, err, messages.ErrInvalidArgument, name)
	}
	dead := f.connect()
	dead.Close()
	_, err = cluster.Join(t.Context(), cluster.Config{Node: a.node, Conn: dead})
	require.ErrorIs(t, err, messages.ErrUnavailable)
}
