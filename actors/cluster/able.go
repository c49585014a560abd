package cluster

import (
	"context"
	"slices"
	"time"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/messages"
)

// Members may run different versions of an application, while it is upgraded or rolled back. Each says with its heartbeats
// which ledgers its own can open, and which commands it knows (actors.App). A tenant is suggested for, moved to, and
// passed on to members that can open its ledger, those first that know the commands which it was asked for lately. What a
// closed ledger needs is not known before somebody has opened it: who finds that it cannot hands the lease back before
// anything was pinned, remembers it, and passes the tenant on.

// wants is what a tenant asks of the member that opens it, as far as it is known here.
type wants struct {
	by       actors.App // of the member that knows
	schema   int
	commands []string
}

func (m *Member) wants(key messages.Key) wants {
	w := wants{by: m.app}
	if w.schema, w.commands = m.node.Wants(key); w.schema == 0 {
		if refusal := m.unable.recall(key, m.cfg.Now()); refusal != nil {
			w.schema = refusal.Needs
		}
	}
	return w
}

// opens reports whether a member can open the ledger.
func (w wants) opens(i Info) bool {
	// Of two lists of the same length at most one has been at work in the ledger.
	return i.App.Schema >= w.schema && (i.App.Schema != w.by.Schema || i.App.Fingerprint == w.by.Fingerprint)
}

func (w wants) knows(i Info) bool {
	return !slices.ContainsFunc(w.commands, func(c string) bool { return !i.App.Knows(c) })
}

// able returns the roster of those who can open a tenant's ledger; of those who know its commands, if there are any. What is said of
// without does not count.
func (r *roster) able(w wants, without string) *roster {
	only := func(fit func(Info) bool) *roster {
		out := *r
		out.all = slices.DeleteFunc(slices.Clone(r.all), func(i Info) bool { return !fit(i) })
		return &out
	}
	both := only(func(i Info) bool { return w.opens(i) && w.knows(i) })
	if slices.ContainsFunc(both.all, func(i Info) bool { return i.State == StateServing && i.Owner != without }) {
		return both
	}
	return only(w.opens)
}

const (
	// rememberUnable is how long a member knows that its application could not open a tenant.
	rememberUnable = time.Minute
	// swapPause is the least time between two moves of a tenant for the sake of a command.
	swapPause = time.Second
)

// unknown sends on a call of a command that this member does not know, and another one does: the tenant is moved there.
// nil: this is not such a call, or nobody knows the command, and the node says so.
func (m *Member) unknown(ctx context.Context, req *messages.Request) *messages.Reply {
	if req.Action != messages.ActionCall || m.app.Knows(req.Command) {
		return nil
	}
	w := m.wants(req.Key)
	w.commands = []string{req.Command}
	r := m.roster.Load().able(w, m.self)
	to := r.suggest(req.Key, req.Avoid, m.self)
	if i := slices.IndexFunc(r.all, func(i Info) bool { return i.Owner == to }); i < 0 || !w.knows(r.all[i]) {
		return nil
	}
	refusal := &messages.Error{Code: messages.CodeIncapable, Key: req.Key.String(), Owner: to, RetryAfter: swapPause / 10,
		Message: "the application of this member does not know the command; nothing was done"}
	now := m.cfg.Now()
	switch {
	case m.swapped.recall(req.Key, now) != nil:
		refusal.Owner = "" // it has just been moved for a command, or is being moved
	case m.node.Serves(req.Key):
		m.swapped.remember(req.Key, refusal, now.Add(swapPause))
		if err := m.move(ctx, req.Key, to); err != nil {
			refusal.Owner, refusal.Err = "", err
		}
	case m.node.Has(req.Key):
		refusal.Owner = "" // it is opening, or may have something to save
	default:
		refusal.Owner = ""
		return m.passOn(ctx, req, w, refusal)
	}
	return m.refuse(refusal)
}

// stranded returns the tenants that are served here, and that none of the members which go on can open, and the newest version that they need.
// While nobody goes on, there is nothing to be said.
func (m *Member) stranded() (keys []messages.Key, needs int) {
	r := m.roster.Load()
	goesOn := func(i Info) bool { return i.Owner != m.self && (i.State == StateServing || i.State == StateFull) }
	if !slices.ContainsFunc(r.all, goesOn) {
		return nil, 0
	}
	for _, key := range m.node.Serving() {
		w := m.wants(key)
		if !slices.ContainsFunc(r.all, func(i Info) bool { return goesOn(i) && w.opens(i) }) {
			keys, needs = append(keys, key), max(needs, w.schema)
		}
	}
	return keys, needs
}

// holdOn keeps the tenants that nobody else can open for half of the time that is left, and moves them if somebody comes who
// can: the last member that can open a ledger does not go away unseen.
func (m *Member) holdOn(ctx context.Context) {
	keys, needs := m.stranded()
	if len(keys) == 0 {
		return
	}
	m.node.RaiseAlarm(&messages.Error{Code: messages.CodeIncapable, Needs: needs,
		Message: "this member leaves, and no other one can open some of its tenants: their ledgers need a later version of the application"})
	m.log.Error("the members that go on cannot open tenants of this one, which is about to stop: start a member with the later version of the application",
		"tenants", len(keys), "needs", needs)
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/2)
		defer cancel()
	}
	for sleep(ctx, m.cfg.HeartbeatEvery) {
		if keys, needs = m.stranded(); len(keys) == 0 {
			m.node.ClearAlarm(messages.CodeIncapable, "")
			return
		}
	}
	m.log.Error("tenants are handed off to nobody: they are not served until a member can open them", "tenants", len(keys), "needs", needs)
}

// compare looks, at the beginning and with each heartbeat, whether the others serve ledgers that this member's application is
// too old for. When it joins, that is a rollback to a version that cannot open them: it is not ready, so that whoever rolls
// it out stops here. When the others are upgraded later, it goes on with what it has. It is for the goroutine of the membership.
func (m *Member) compare(all []Info) {
	needs := 0
	for _, i := range all {
		if i.Owner != m.self {
			needs = max(needs, i.Needs)
		}
	}
	first := !m.compared
	m.compared = true
	switch {
	case needs <= m.app.Schema && m.outdated:
		m.outdated = false
		m.node.ClearAlarm(messages.CodeIncapable, "")
	case needs > m.app.Schema && first:
		m.outdated = true
		m.node.RaiseAlarm(&messages.Error{Code: messages.CodeIncapable, Needs: needs,
			Message: "the application of this member is older than the ledgers that others serve: it can open none of them, and must not replace those that can"})
	}
}
