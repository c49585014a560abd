package model

// live says whether a lease that nobody else renews is taken in the end: from this state on, only the contender goes on,
// what others have sent never lands (or landed already), and nobody gives up.
func live(c config, contender int) func(*machine, *state) violation {
	c.lostLog, c.lostRec, c.reads, c.deletes, c.others = false, false, false, 0, false
	solo := &machine{config: c}
	return func(_ *machine, s *state) violation {
		now := *s
		for i := range now.procs {
			if i != contender {
				now.procs[i] = process{log: now.procs[i].log, logVer: now.procs[i].logVer}
			}
		}
		now.lateLog, now.lateRec = logPut{}, recPut{}
		solo.norm(&now)
		// A try that is under way and has been overtaken, one of a lease that it holds itself, the span, and a try.
		for range 40 {
			if r := now.procs[contender].record; r.landed && r.kind == acquire {
				return none
			}
			moved := false
			solo.emit = func(_ label, n *state) {
				if !moved {
					moved, now = true, *n
				}
			}
			at := now
			for _, do := range []func(*state, int){solo.answers, solo.land, solo.contend} {
				if !moved {
					do(&at, contender)
				}
			}
			if !moved {
				now.tick()
				solo.norm(&now)
			}
		}
		return p4
	}
}
