package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/actors/client"
	"github.com/leasehold/leasehold/internal/loglimit"
	"github.com/leasehold/leasehold/messages"
)

// Member is a node's membership of a cluster. All methods are safe for concurrent use.
type Member struct {
	cfg       Config
	node      *actors.Node
	self      string
	log       *slog.Logger
	untrusted *slog.Logger // for what others can cause as often as they like
	conn      *natsgo.Conn
	subjects  client.Subjects
	client    *client.Client
	metrics   *metrics
	started   time.Time

	arrivals   *arrivals
	departures *departures
	sightings  *sightings
	noRoom     noRoom
	unable     refusals   // tenants whose ledgers this member's application cannot open
	swapped    refusals   // tenants that were moved for the sake of a command
	app        actors.App // of this member

	// What the goroutine of the membership tells the others.
	roster   atomic.Pointer[roster]
	state    atomic.Pointer[State]
	open     atomic.Int64 // tenants that the node serves, as of the last heartbeat
	needs    atomic.Int64 // the newest version of an application that one of them needs
	inFlight atomic.Int64 // requests

	beats   chan Info     // from the subscription to the membership
	nudge   chan struct{} // asks the membership for a heartbeat at once
	changed chan struct{} // tells the rebalancer that the members have changed
	cramped chan struct{} // tells the rebalancer that tenants cannot store what they have to
	known   chan struct{} // closed when those who are there have had time to say so
	subs    struct {
		any, own, members, moves *natsgo.Subscription
	}
	life     context.Context // ends with Close
	end      context.CancelFunc
	settled  context.Context // ends with Leave: no more rebalancing
	unsettle context.CancelFunc
	running  sync.WaitGroup // the two goroutines of the membership
	work     work           // requests and moves
	// Of the goroutine of the membership.
	compared, outdated bool

	asked    atomic.Bool   // to leave
	left     chan struct{} // closed when Leave is through
	leaveErr error         // read after left
	closing  sync.Once
}

// Join makes a node a member of a cluster: it answers requests for tenants, and is sent those that nobody
// serves yet. Join returns when the member hears and is heard. The errors are CodeInvalidArgument for a
// Config that Validate refuses, and CodeUnavailable if NATS does not answer.
func Join(ctx context.Context, cfg Config) (*Member, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	subjects, err := client.NewSubjects(cfg.Cluster)
	if err != nil {
		return nil, err
	}
	m := &Member{
		cfg: cfg, node: cfg.Node, self: cfg.Node.Owner(), log: cfg.Log, untrusted: slog.New(loglimit.New(cfg.Log.Handler(), cfg.Now)), conn: cfg.Conn, subjects: subjects, started: cfg.Now(),
		arrivals: newArrivals(cfg.Now), sightings: newSightings(cfg.Now), departures: &departures{now: cfg.Now, keys: make(map[messages.Key]departure)},
		beats: make(chan Info, 256), nudge: make(chan struct{}, 1), changed: make(chan struct{}, 1), cramped: make(chan struct{}, 1), left: make(chan struct{}), known: make(chan struct{}),
	}
	m.life, m.end = context.WithCancel(context.Background())
	m.settled, m.unsettle = context.WithCancel(m.life)
	m.app = m.node.App()
	if own, err := json.Marshal(m.app); err != nil || len(own) > maxBeatBytes/2 {
		return nil, &messages.Error{Code: messages.CodeInvalidArgument, Message: "the names of the application's commands do not fit into a heartbeat", Err: err}
	}
	m.setState(StateServing)
	m.roster.Store(&roster{self: m.self, all: []Info{m.info()}})
	remote, err := client.NewNATS(cfg.Conn, cfg.Cluster)
	if err != nil {
		return nil, err
	}
	if m.client, err = client.New(&inside{m, remote}, cfg.Client); err != nil {
		return nil, err
	}
	if m.metrics, err = newMetrics(cfg.Registerer, m.client.Stats); err != nil {
		return nil, err
	}
	if err := m.subscribe(ctx); err != nil {
		m.end() // first: nobody takes heartbeats, and what has come in already is not wanted any more
		m.deafen(m.subs.any, m.subs.own, m.subs.moves, m.subs.members)
		m.work.wait()
		m.metrics.close()
		return nil, err
	}
	m.running.Go(m.membership)
	m.running.Go(m.rebalance)
	time.AfterFunc(cfg.HeartbeatEvery/2, func() { close(m.known) }) // they were asked, and answer at once
	m.warnOfLimit()
	m.log.Info("joined the cluster", "cluster", cfg.Cluster, "owner", m.self)
	return m, nil
}

// subscribe begins to hear, asks the others who they are, and waits until the server has taken it all.
func (m *Member) subscribe(ctx context.Context) (err error) {
	fail := func(err error) error {
		return &messages.Error{Code: messages.CodeUnavailable, Message: "NATS does not take the subscriptions of a member", Err: err}
	}
	for _, s := range []struct {
		subject, group string
		to             **natsgo.Subscription
		handle         natsgo.MsgHandler
	}{
		{m.subjects.Members(), "", &m.subs.members, m.heardBeat},
		{m.subjects.Member(m.self), "", &m.subs.moves, m.heardMove},
		{m.subjects.Request(m.self), "", &m.subs.own, func(msg *natsgo.Msg) { m.heardRequest(msg, true) }},
		{m.subjects.AnyRequest(), client.RequestQueue, &m.subs.any, func(msg *natsgo.Msg) { m.heardRequest(msg, false) }},
	} {
		if *s.to, err = m.conn.QueueSubscribe(s.subject, s.group, s.handle); err != nil {
			return fail(err)
		}
	}
	if err := m.say(beat{Info: m.info(), Ask: true}); err != nil {
		return fail(err)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := m.conn.FlushWithContext(ctx); err != nil {
		return fail(err)
	}
	return nil
}

// drainTimeout bounds the wait for messages that have arrived already.
const drainTimeout = 2 * time.Second

// deafen ends subscriptions: nothing new arrives, and what has arrived is handled before it returns, unless that
// takes too long. A subscription that was ended before, or whose connection is gone, has nothing left.
func (m *Member) deafen(subs ...*natsgo.Subscription) {
	timeout := time.NewTimer(drainTimeout)
	defer timeout.Stop()
	var all []<-chan natsgo.SubStatus
	for _, s := range subs {
		if s == nil || !s.IsValid() {
			continue
		}
		closed := s.StatusChanged(natsgo.SubscriptionClosed)
		if s.Drain() == nil {
			all = append(all, closed)
		}
	}
	for _, closed := range all {
		select {
		case <-closed:
		case <-timeout.C:
			return
		}
	}
}

func (m *Member) setState(s State) { m.state.Store(&s) }

// Leaving reports whether Leave was called.
func (m *Member) Leaving() bool { return *m.state.Load() != StateServing }

// shunned is roster.shunned with the patience of two heartbeats.
func (m *Member) shunned(r *roster, owner string, avoid []string) bool {
	return r.shunned(owner, avoid, m.cfg.Now().Add(-2*m.cfg.HeartbeatEvery))
}

// beat is a heartbeat. Ask asks the others for theirs at once.
type beat struct {
	Info
	Ask bool `json:"ask,omitempty"`
}

func (m *Member) say(b beat) error {
	data, err := json.Marshal(b)
	if err != nil {
		return err
	}
	return m.conn.Publish(m.subjects.Members(), data)
}

func (m *Member) heardBeat(msg *natsgo.Msg) {
	var b beat
	if len(msg.Data) > maxBeatBytes || json.Unmarshal(msg.Data, &b) != nil || messages.ValidateOwner(b.Owner) != nil || b.Owner == m.self {
		return
	}
	select {
	case m.beats <- b.Info:
	case <-m.life.Done():
	}
	if b.Ask {
		wake(m.nudge)
	}
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is awake already
	}
}

// maxBeatBytes bounds a heartbeat. It names the commands of an application.
const maxBeatBytes = 64 << 10

// membership is the goroutine that knows who the others are.
func (m *Member) membership() {
	v := newView(m.cfg.HeartbeatEvery, m.cfg.DeadAfter, m.cfg.Now())
	ticker := time.NewTicker(m.cfg.HeartbeatEvery)
	defer ticker.Stop()
	for {
		changed := false
		select {
		case b := <-m.beats:
			changed = v.hear(b, m.cfg.Now())
		case <-m.nudge:
			_ = m.say(beat{Info: m.info()}) // if it cannot be said now, it is at the next tick
		case <-ticker.C:
			m.count()
			_ = m.say(beat{Info: m.info()})
			changed = v.tick(m.conn.IsConnected(), m.cfg.Now())
			m.departures.sweep()
			m.arrivals.sweep()
			if v.deaf {
				m.sightings.begin()
			}
			m.sightings.sweep()
			m.noRoom.sweep(m.cfg.Now())
			m.unable.sweep(m.cfg.Now())
			m.swapped.sweep(m.cfg.Now())
			changed = m.watchDisk() || changed
			m.compare(v.members(m.info()))
		case <-m.life.Done():
			return
		}
		all := v.members(m.info())
		r := &roster{self: m.self, all: all, heard: v.heardAt()}
		m.roster.Store(r)
		m.desert(all)
		m.metrics.members.Set(float64(len(all)))
		if changed {
			m.arrivals.endIf(func(from string) bool { return !r.live(from) }) // who died says nothing any more
			m.logChange(all)
			wake(m.changed)
		}
	}
}

// maxLogged bounds the members that a line of the log names.
const maxLogged = 16

// logChange logs who the members are now. Whoever can send heartbeats can have it written as often as he likes.
func (m *Member) logChange(all []Info) {
	names := make([]string, 0, maxLogged)
	for _, one := range all[:min(len(all), maxLogged)] {
		names = append(names, one.Owner+" "+string(one.State))
	}
	m.untrusted.Info("the members have changed", "count", len(all), "members", names)
}

// count counts what the node serves, and what that needs.
func (m *Member) count() {
	open, needs := 0, 0
	for _, key := range m.node.Serving() {
		schema, _ := m.node.Wants(key)
		open, needs = open+1, max(needs, schema)
	}
	m.open.Store(int64(open))
	m.needs.Store(int64(needs))
}

// Members returns who the members are, this one included, as far as this one knows, in the order of
// their owner ids.
func (m *Member) Members() []Info { return slices.Clone(m.roster.Load().all) }

// Node returns the member's node.
func (m *Member) Node() *actors.Node { return m.node }

// Do carries out a request at the member that owns the tenant, wherever that is; see client.Client.Do. Once this member
// has departed and no other one serves, it is CodeDraining, or CodeUnknownOutcome: nobody will answer before the deadline.
func (m *Member) Do(ctx context.Context, req *messages.Request) *messages.Reply {
	reply := m.client.Do(ctx, req)
	if e := reply.Error; e != nil && e.Code == messages.CodeClosed && *m.state.Load() == stateGone {
		return m.refuse(&messages.Error{Code: messages.CodeDraining, Key: e.Key, RetryAfter: time.Second,
			Message: "every member is on its way out; nothing was done", Err: e})
	}
	return reply
}

// Tenant returns a handle on a tenant, wherever it is served. It touches nothing. CodeInvalidID: a
// malformed id.
func (m *Member) Tenant(org messages.OrgID, id messages.TenantID) (*client.Tenant, error) {
	return m.client.Tenant(org, id)
}

// Leave hands every tenant to the member that should have it next, and takes no new ones. Requests for
// tenants that are still here are carried out; others are sent on. When ctx ends before it is through, the rest is left to
// actors.Node.Shutdown, which comes next. It returns the errors of single moves, joined. A second call waits for the first.
func (m *Member) Leave(ctx context.Context) error {
	if m.asked.CompareAndSwap(false, true) {
		m.setState(StateLeaving)
		m.unsettle()
		m.deafen(m.subs.any) // others say from now on who should be asked
		_ = m.say(beat{Info: m.info()})
		m.leaveErr = m.moveAll(ctx)
		m.holdOn(ctx)
		if keys, _ := m.stranded(); len(keys) > 0 || len(m.misplaced()) > 0 {
			m.leaveErr = errors.Join(m.moveAll(ctx), m.leftBehind(keys))
		}
		close(m.left)
	}
	select {
	case <-m.left:
		return m.leaveErr
	case <-ctx.Done():
		return messages.AsError(ctx.Err())
	}
}

// Close ends the membership: the others are told, and requests are not answered any more. It is
// called after the node has stopped. What is being answered is waited for. Closing twice is fine.
func (m *Member) Close() error {
	var err error
	m.closing.Do(func() {
		m.setState(stateGone)
		_ = m.say(beat{Info: m.info()})
		m.deafen(m.subs.any, m.subs.own, m.subs.moves, m.subs.members)
		m.arrivals.endIf(func(string) bool { return true })
		m.work.wait()
		m.end()
		m.running.Wait()
		_ = m.say(beat{Info: m.info()}) // again: a heartbeat from before may have gone out meanwhile
		m.metrics.close()
		err = m.client.Close()
		if m.conn.IsConnected() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_ = m.conn.FlushWithContext(ctx) // if it does not get through, the others notice for themselves
		}
		m.log.Info("left the cluster", "cluster", m.cfg.Cluster, "owner", m.self)
	})
	return err
}
