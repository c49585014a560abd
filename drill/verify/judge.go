package verify

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasehold/leasehold/drill/history"
	"github.com/leasehold/leasehold/drill/record"
	"github.com/leasehold/leasehold/drill/slow"
	"github.com/leasehold/leasehold/messages"
)

// OpStuck is the Op of an action that says that the drill waited for something in vain.
const OpStuck = "stuck"

// The Ops of the actions upon the server of a store.
const (
	OpServerKill  = "server-kill"
	OpServerStart = "server-start"
	OpServerStop  = "server-stop"
	OpServerCont  = "server-cont"
)

// The Ops of the actions upon connections with servers: the faults begin, and have ended. The Text is the step.
const (
	OpWire    = "wire"
	OpWireEnd = "wire-end"
)

// Invariant is one line of the table.
type Invariant struct {
	Name string `json:"name"` // "I1" … "I6"
	Text string `json:"text"`
	// Checked says what was looked at.
	Checked string `json:"checked"`
	// Broken lists what broke it; nil: it holds. Each names the rule of the contract that it is about.
	Broken []string `json:"broken,omitempty"`
	// Evidence are lines of the records and logs about the first of them, each group below its finding.
	Evidence []string `json:"evidence,omitempty"`
}

// Verdict is what a run has shown.
type Verdict struct {
	Info
	OK         bool        `json:"ok"`
	Invariants []Invariant `json:"invariants"`
	Counts     Counts      `json:"counts"`
	// Gaps are the longest times between two acknowledgements of each tenant, in ns, in their order.
	Gaps []time.Duration `json:"longest_gap_ns"`
	// Took is the duration of the whole run, in ns; 0 if it was only judged.
	Took time.Duration `json:"took_ns"`
	// Slow is how late the machine was meanwhile; TooSlow says that it was later than what the processes are held to.
	Slow    slow.Report `json:"slow"`
	TooSlow bool        `json:"too_slow"`
	// OnlyTime says that all that broke is that something took too long, or did not come about in its time.
	OnlyTime bool `json:"only_time"`
}

// CouldNotJudge reports whether what broke may be the machine's fault, which was too slow for the drill. No slowness excuses
// a second owner or a lost write.
func (v Verdict) CouldNotJudge() bool { return v.TooSlow && v.OnlyTime && !v.OK }

// Found returns the names of the invariants that broke, and the rules within them ("I4", "S2").
func (v Verdict) Found() []string {
	var out []string
	for _, i := range v.Invariants {
		if len(i.Broken) > 0 {
			out = append(out, i.Name)
		}
	}
	return out
}

var invariants = []Invariant{
	{Name: "I1", Text: "epochs are consecutive, none granted twice or skipped"},
	{Name: "I2", Text: "each epoch has at most one writer"},
	{Name: "I3", Text: "no write is acknowledged after the next owner's grant"},
	{Name: "I4", Text: "the ledger is exactly the lineage that the durable copies describe"},
	{Name: "I5", Text: "graceful epochs lose nothing, crashed ones their tail; refusals are typed"},
	{Name: "I6", Text: "no tenant sees another's writes"},
}

// belongs maps the contract's other rules to the invariant that they serve.
func belongs(rule string) string {
	switch {
	case strings.HasPrefix(rule, "I"):
		return rule
	case rule == "D14":
		return "I3"
	case rule == "G2", strings.HasPrefix(rule, "H"):
		return "I5"
	}
	return "I4" // the lineage: S…, W2
}

// Judge reads what a run has left in its folder and judges it. It changes nothing. An error says that
// the folder is none of a run, or is damaged in a way that leaves nothing to judge.
func Judge(ctx context.Context, root string) (Verdict, error) {
	r, err := load(ctx, root)
	if err != nil {
		return Verdict{}, err
	}
	v := Verdict{Info: r.info, Counts: r.count(), Gaps: r.gaps()}
	v.Invariants = slices.Clone(invariants)
	for i := range v.Invariants {
		v.Invariants[i].Checked = v.Counts.checked(v.Invariants[i].Name)
	}
	all, ofTime := 0, 0
	broke := func(rule string, format string, args ...any) {
		i := slices.IndexFunc(v.Invariants, func(i Invariant) bool { return i.Name == belongs(rule) })
		v.Invariants[i].Broken = append(v.Invariants[i].Broken, rule+" "+fmt.Sprintf(format, args...))
		all++
	}
	late := func(rule string, format string, args ...any) {
		broke(rule, format, args...)
		ofTime++
	}
	for _, violation := range r.h.Check(ctx) {
		broke(violation.Rule, "%s e%d: %s", r.name(violation.Key), violation.Epoch, violation.Text)
	}
	r.judgeOpens(broke, late)
	r.judgeRefusals(broke, late)
	v.OK, v.OnlyTime = all == 0, all > 0 && all == ofTime
	for i := range v.Invariants {
		v.Invariants[i].Evidence = r.evidence(root, v.Invariants[i].Broken)
	}
	return v, nil
}

// judgeOpens: what was answered was asked for, and whoever follows can open the tenant (I4). Nothing in a drill damages an object, so that an open that
// fails its verification means that the protocol did.
func (r *run) judgeOpens(broke, late func(string, string, ...any)) {
	for _, l := range r.orphans {
		broke("I4", "%s was answered %s %s by %s, and never asked for", l.Write, l.Kind, l.Code, l.Proc)
	}
	seen := map[string]bool{}
	for _, l := range r.lines {
		switch {
		case l.Kind == record.TookOver && l.Code != "":
			broke("I4", "%s cannot be taken over: %s", r.nameOf(l.Key), l.Text)
		case l.Kind == record.Lifecycle && l.Life != nil && l.Life.Code == messages.CodeCorrupt && !seen[l.Key+l.Life.Object]:
			seen[l.Key+l.Life.Object] = true
			broke("I4", "%s e%d: %s at %s, at fault is %s", r.nameOf(l.Key), l.Epoch, l.Life.Kind, l.Proc, l.Life.Object)
		case l.Kind == record.Action && l.Op == OpStuck:
			late("I4", "the drill waited in vain: %s", l.Text)
		}
	}
	for _, key := range r.keys {
		took := slices.ContainsFunc(r.lines, func(l record.Line) bool { return l.Kind == record.TookOver && l.Key == key.String() })
		if !took {
			broke("I4", "%s was not taken over by the verifier", r.name(key))
		}
	}
}

// judgeRefusals: every refusal is a typed error, and while a tenant drained there were some that say so (I5).
func (r *run) judgeRefusals(broke, late func(string, string, ...any)) {
	draining := false
	handoffs := 0
	for _, l := range r.lines {
		switch {
		case l.Kind == record.Refused && l.Untyped:
			broke("I5", "%s answered %q with an error without a code: %s", l.Proc, l.Write, l.Text)
		case l.Kind == record.Refused && l.Code == messages.CodeDraining && l.Write != "":
			draining = true
		case l.Kind == record.Action && l.Op == "term":
			handoffs++
		}
	}
	if handoffs > 0 && !draining {
		late("I5", "%d processes were told to hand off, and no writer was refused as draining", handoffs)
	}
}

// name returns a tenant as the drill prints it.
func (r *run) name(key messages.Key) string { return r.nameOf(key.String()) }

func (r *run) nameOf(key string) string {
	if i := slices.Index(r.info.Tenants, key); i >= 0 {
		return fmt.Sprintf("t%d", i+1)
	}
	return key
}

// gaps returns the longest time between two acknowledgements of each tenant.
func (r *run) gaps() []time.Duration {
	out := make([]time.Duration, len(r.keys))
	for i, key := range r.keys {
		var acks []time.Time
		for _, w := range r.h.Writes {
			if w.Key == key && w.Outcome == history.Acked {
				acks = append(acks, w.Answered)
			}
		}
		slices.SortFunc(acks, func(a, b time.Time) int { return cmp.Compare(a.UnixNano(), b.UnixNano()) })
		for n := 1; n < len(acks); n++ {
			out[i] = max(out[i], acks[n].Sub(acks[n-1]))
		}
	}
	return out
}
