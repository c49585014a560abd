package history

import (
	"github.com/leasehold/leasehold/messages"
)

// checkReplies: no answer comes from an older state than its caller has seen (Q4). A caller who has seen what is lost is told so before
// anything is done, and nobody else is (H2). A tenant that there is is not unknown (Q2).
func (v *view) checkReplies() {
	for _, r := range v.h.Replies {
		if r.Key != v.key || r.Action == messages.ActionSnapshot { // which is taken without asking what the caller has seen
			continue
		}
		switch r.Code {
		case "":
			if r.State.Before(r.Seen) {
				v.fail("Q4", r.State.Epoch, "%s at %s was answered from e%d/%d to a client that had seen e%d/%d",
					r.Action, r.Owner, r.State.Epoch, r.State.Seq, r.Seen.Epoch, r.Seen.Seq)
			} else if at, lost := v.lost(r.State.Epoch, r.Seen); lost {
				v.fail("H2", r.State.Epoch, "%s at %s was answered from e%d/%d to a client that had seen e%d/%d, although epoch %d began without that",
					r.Action, r.Owner, r.State.Epoch, r.State.Seq, r.Seen.Epoch, r.Seen.Seq, at)
			}
		case messages.CodeHistoryLost:
			if r.State.Epoch >= r.Seen.Epoch {
				if _, lost := v.lost(r.State.Epoch, r.Seen); !lost {
					v.fail("H2", r.State.Epoch, "%s at %s says that e%d/%d is lost, and epoch %d has it", r.Action, r.Owner, r.Seen.Epoch, r.Seen.Seq, r.State.Epoch)
				}
			} else if _, granted := v.grant(r.Seen.Epoch); granted {
				v.fail("H2", r.State.Epoch, "%s at %s says that e%d/%d is no part of this history, and its epoch was granted", r.Action, r.Owner, r.Seen.Epoch, r.Seen.Seq)
			}
		case messages.CodeUnknownTenant:
			if v.existed(r) {
				v.fail("Q2", 0, "%s at %s says that there is no such tenant", r.Action, r.Owner)
			}
		}
	}
}

// lost reports whether an epoch's history is without a state that somebody has seen, and which epoch began without it. What is not
// known is not lost.
func (v *view) lost(epoch uint64, seen messages.Seen) (at uint64, lost bool) {
	for epoch > seen.Epoch {
		e := v.lineage.epochs[epoch]
		if e == nil || e.base == nil {
			return 0, false
		}
		from, restored := e.base.From, int64(0)
		if !from.IsEmpty() {
			head := v.lineage.epochs[from.Epoch]
			if head == nil {
				return 0, false
			}
			m, known := head.manifests[from.Snapshot]
			if !known {
				return 0, false
			}
			restored = m.LastSeq
		}
		if restored < seen.Seq {
			return epoch, true
		}
		epoch = from.Epoch
	}
	return 0, false
}

// existed reports whether there was a tenant during a whole request, by the lease store's record.
func (v *view) existed(r Reply) bool {
	exists := false
	for _, e := range v.trail {
		switch {
		case e.At.After(r.Answered.Add(v.h.Slack)):
			return exists
		case e.Op == messages.OpAcquire && e.At.Add(v.h.Slack).Before(r.Sent):
			exists = true
		case e.Op == messages.OpForget:
			exists = false
		}
	}
	return exists
}

// checkDuplicates: an answer says "duplicate" if, and only if, the work was there already (W2).
func (v *view) checkDuplicates() {
	byID := map[string][]Write{}
	for _, w := range v.writes {
		byID[w.ID] = append(byID[w.ID], w)
	}
	for id, attempts := range byID {
		for i, w := range attempts {
			if w.Outcome != Acked {
				continue
			}
			before := false
			for j, other := range attempts {
				switch {
				case i == j || other.Outcome == Refused:
				case w.Duplicate:
					before = before || !other.Sent.After(w.Answered)
				case other.Outcome == Acked && w.Epoch > 0 && other.Epoch == w.Epoch && other.Answered.Add(v.h.Slack).Before(w.Sent):
					v.fail("W2", w.Epoch, "%s was acknowledged a second time, and not as a duplicate", id)
				}
			}
			if w.Duplicate && !before {
				v.fail("W2", w.Epoch, "%s was called a duplicate at %s, and nothing of it was there", id, w.Owner)
			}
		}
	}
}

// checkGroups: of what stands or falls together, a state holds all or nothing (W2, W3).
func (v *view) checkGroups(what string, epoch uint64, rows []Row, ids map[string]*status, groups map[string]int) {
	there := map[string]int{}
	for _, r := range rows {
		if s := ids[r.ID]; s != nil && s.group != "" {
			there[s.group]++
		}
	}
	for group, n := range there {
		if n != groups[group] {
			v.fail("W2", epoch, "%s holds %d of the %d events of %s", what, n, groups[group], group)
		}
	}
}
