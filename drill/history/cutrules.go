package history

// checkCuts: a snapshot holds every write that was acknowledged before it was cut (I4, S7). A manifest's
// time is read before the cut begins, by the clock of the node that acknowledges.
func (v *view) checkCuts() {
	acked := map[uint64][]Write{}
	for _, w := range v.writes {
		if w.Outcome == Acked && !w.Duplicate {
			acked[w.Epoch] = append(acked[w.Epoch], w)
		}
	}
	for n, e := range v.lineage.epochs {
		for number, m := range e.manifests {
			for _, w := range acked[n] {
				if w.Owner != m.Owner || w.Seq <= m.LastSeq {
					continue
				}
				if w.Answered.Add(v.h.Slack).Before(m.Time) {
					v.fail("I4", n, "snapshot %d ends at seq %d, although %s was acknowledged at %d, %v before it was cut",
						number, m.LastSeq, w.ID, w.Seq, m.Time.Sub(w.Answered))
				}
			}
		}
	}
}
