package actors

import (
	"cmp"
	"context"
	"slices"

	"github.com/leasehold/leasehold/actors/machine"
)

// victim is an activation that was idle when it was looked at, and when it was used last by then.
type victim struct {
	act  *activation
	used int64
}

// victimsPerScan is how many evictions one look at all activations serves: a node that is full opens
// tenants at a high rate, and must not look at ten thousand others for each.
const victimsPerScan = 64

// purge drops the evicted activations that have ended and whose Terminated is still on its way.
func (s *supervisor) purge() {
	s.evicted = slices.DeleteFunc(s.evicted, func(act *activation) bool {
		if act.gone() {
			s.drop(act)
			return true
		}
		return act.serving.Load() // its handoff failed
	})
}

func (a *activation) idle() bool { return a.serving.Load() && a.inFlight.Load() == 0 }

// oldest returns the least recently used idle activation; nil: none is idle.
func (s *supervisor) oldest() *activation {
	for range 2 {
		for len(s.victims) > 0 {
			v := s.victims[0]
			s.victims = s.victims[1:]
			if v.act.idle() && v.act.used.Load() == v.used && s.entries[v.act.key] == v.act {
				return v.act
			}
		}
		var all []victim
		for _, act := range s.entries {
			if act.idle() {
				all = append(all, victim{act, act.used.Load()})
			}
		}
		slices.SortFunc(all, func(a, b victim) int { return cmp.Compare(a.used, b.used) })
		s.victims = slices.Clone(all[:min(len(all), victimsPerScan)])
	}
	return nil
}

// makeRoom hands the least recently used idle tenant off and returns a channel that is closed when
// that has ended, in whichever way; nil if no tenant is idle.
func (s *supervisor) makeRoom() <-chan struct{} {
	oldest := s.oldest()
	if oldest == nil {
		return nil
	}
	s.node.metrics.evictions.Inc()
	s.evicted = append(s.evicted, oldest)
	oldest.serving.Store(false) // so that the next one makes other room
	done := make(chan struct{})
	ctx, cancel := context.WithTimeout(context.Background(), s.node.cfg.RequestTimeout)
	s.node.system.Go(func() {
		defer cancel()
		defer close(done)
		if oldest.handOff(ctx, machine.Evicted, "") == nil {
			<-oldest.ref.Done() // it is closing: there is no room before it is gone
		}
	})
	return done
}
