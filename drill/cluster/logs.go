package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// window is how long an owner served a tenant at one epoch, by its own log.
type window struct {
	owner    string
	epoch    uint64
	from, to time.Time
	draining time.Time // zero: it was not handed off
}

// logLine is what the drill reads of a line of a node's log.
type logLine struct {
	Time  time.Time              `json:"time"`
	Level string                 `json:"level"`
	Msg   string                 `json:"msg"`
	Owner string                 `json:"owner"`
	Key   string                 `json:"key"`
	Event messages.LifecycleKind `json:"event"`
	Epoch uint64                 `json:"epoch"`
}

// windows reads the logs of all nodes: by tenant, in the order of the epochs.
func windows(nodes []*node) (map[string][]window, error) {
	out := make(map[string][]window)
	for _, n := range nodes {
		for _, l := range n.lives {
			if err := l.windows(out); err != nil {
				return nil, err
			}
		}
	}
	for _, list := range out {
		slices.SortFunc(list, func(a, b window) int {
			return cmp.Or(cmp.Compare(a.epoch, b.epoch), a.from.Compare(b.from))
		})
	}
	return out, nil
}

// windows reads the log of one process. One that was killed served until then; one that was frozen served
// nobody while it stood still (contract line D6: what it believes then does not count).
func (l life) windows(out map[string][]window) error {
	owner := ""
	open := make(map[string]*window)
	end := func(key string, at time.Time) {
		if w := open[key]; w != nil {
			for _, f := range l.frozen {
				if w.from.Before(f[0]) && at.After(f[0]) {
					at = f[0]
				}
			}
			w.to = at
			out[key] = append(out[key], *w)
			delete(open, key)
		}
	}
	err := eachLogLine(l.log, func(line logLine, _ string) {
		switch {
		case line.Msg == "node started":
			owner = line.Owner
		case line.Event == messages.LifecycleServing, line.Event == messages.LifecycleResumed:
			open[line.Key] = &window{owner: owner, epoch: line.Epoch, from: line.Time}
		case line.Event == messages.LifecycleDraining:
			if w := open[line.Key]; w != nil {
				w.draining = line.Time
			}
		case line.Event == messages.LifecycleFenced, line.Event == messages.LifecycleReleased, line.Event == messages.LifecycleLost, line.Event == messages.LifecycleClosed:
			end(line.Key, line.Time)
		}
	})
	if err != nil {
		return err
	}
	last := l.stopped
	if last.IsZero() {
		last = time.Now()
	}
	for key := range open {
		end(key, last)
	}
	return nil
}

// twoOwners checks that no two processes served a tenant at once, by their own logs.
func twoOwners(all map[string][]window) (checked int, broken []string) {
	for key, list := range all {
		for i, w := range list {
			checked++
			if i > 0 && w.from.Before(list[i-1].to) {
				broken = append(broken, fmt.Sprintf("%s: %s served epoch %d from %s, %s served epoch %d until %s", key, w.owner, w.epoch,
					w.from.Format(time.StampMicro), list[i-1].owner, list[i-1].epoch, list[i-1].to.Format(time.StampMicro)))
			}
		}
	}
	return checked, broken
}

// handovers returns, for the handoffs that began in a span of time, how long each tenant had no owner: from the beginning
// of the drain until the next owner served.
func handovers(all map[string][]window, from, to time.Time) []time.Duration {
	var out []time.Duration
	for _, list := range all {
		for i, w := range list {
			if i+1 < len(list) && !w.draining.IsZero() && !w.draining.Before(from) && w.draining.Before(to) {
				out = append(out, list[i+1].from.Sub(w.draining))
			}
		}
	}
	slices.Sort(out)
	return out
}
