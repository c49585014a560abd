package verify

import (
	"fmt"

	"github.com/leasehold/leasehold/drill/history"
	"github.com/leasehold/leasehold/drill/record"
	"github.com/leasehold/leasehold/messages"
)

// Counts are the numbers of a run.
type Counts struct {
	Intents      int `json:"intents"`      // writes that were asked for, retries not counted
	Acknowledged int `json:"acknowledged"` // writes that were acknowledged
	Survived     int `json:"survived"`     // of those, in the ledger at the end
	Lost         int `json:"lost"`         // of those, not: the tails of crashed epochs
	Duplicates   int `json:"duplicates"`   // answers that said "duplicate"
	Twice        int `json:"twice"`        // writes that are in the ledger more than once
	Unknown      int `json:"unknown"`      // answers "unknown outcome"

	Refused map[string]int `json:"refused"` // answers by code

	Grants    int `json:"grants"`
	Pins      int `json:"pins"`
	Snapshots int `json:"snapshots"`
	Graceful  int `json:"graceful"` // epochs that ended with everything flushed
	Crashed   int `json:"crashed"`  // epochs that did not
	Rows      int `json:"rows"`     // in the ledgers at the end
	Deleted   int `json:"deleted"`  // objects

	Kills    int `json:"kills"`
	Freezes  int `json:"freezes"`
	Handoffs int `json:"handoffs"` // processes that were told to

	// What was done to the servers of the stores.
	ServerKills int `json:"server_kills"`
	ServerStops int `json:"server_stops"`
	// Wire is what was done to the connections with them, by step.
	Wire map[string]Wire `json:"wire,omitempty"`
}

// Wire counts one kind of fault on connections.
type Wire struct {
	Times int `json:"times"`
	record.Hits
}

func (r *run) count() Counts {
	c := Counts{Refused: map[string]int{}}
	for _, l := range r.lines {
		switch l.Kind {
		case record.Action:
			switch l.Op {
			case "kill":
				c.Kills++
			case "stop":
				c.Freezes++
			case "term":
				c.Handoffs++
			case OpServerKill:
				c.ServerKills++
			case OpServerStop:
				c.ServerStops++
			case OpWireEnd:
				c.hit(l)
			}
		case record.Ack:
			if l.Duplicate {
				c.Duplicates++
			}
		case record.Refused:
			if l.Write != "" {
				c.Refused[string(l.Code)]++
			}
			if l.Code == messages.CodeUnknownOutcome {
				c.Unknown++
			}
		case record.Deleted:
			c.Deleted++
		}
	}
	for _, trail := range r.h.Trails {
		for _, e := range trail {
			if e.Op == messages.OpAcquire {
				c.Grants++
			}
		}
	}
	graceful := map[string]bool{}
	for _, e := range r.h.Lifecycle {
		switch {
		case e.Kind == messages.LifecycleSnapshot:
			c.Snapshots++
		case e.Kind == messages.LifecycleRestored:
			c.Pins++
		case e.Kind == messages.LifecycleReleased && e.Flushed != nil && *e.Flushed:
			graceful[fmt.Sprint(e.Key, e.Epoch)] = true
		}
	}
	c.Graceful = len(graceful)
	c.Crashed = c.Grants - c.Graceful
	in := map[string]int{}
	for _, state := range r.h.Final {
		c.Rows += len(state.Rows)
		for _, row := range state.Rows {
			in[row.ID]++
		}
	}
	for _, n := range in {
		if n > 1 {
			c.Twice++
		}
	}
	acked := map[string]bool{}
	for _, w := range r.h.Writes {
		if w.Attempt == 0 {
			c.Intents++
		}
		if w.Outcome == history.Acked {
			acked[w.ID] = true
		}
	}
	c.Acknowledged = len(acked)
	for id := range acked {
		if in[id] > 0 {
			c.Survived++
		} else {
			c.Lost++
		}
	}
	return c
}

// hit counts an action upon connections that has ended.
func (c *Counts) hit(l record.Line) {
	if c.Wire == nil {
		c.Wire = map[string]Wire{}
	}
	w := c.Wire[l.Text]
	w.Times++
	if l.Hits != nil {
		w.Connections += l.Hits.Connections
		w.Answers += l.Hits.Answers
		w.Bytes += l.Hits.Bytes
	}
	c.Wire[l.Text] = w
}

// checked says what an invariant was checked on.
func (c Counts) checked(invariant string) string {
	refused := 0
	for _, n := range c.Refused {
		refused += n
	}
	switch invariant {
	case "I1":
		return fmt.Sprintf("%d grants", c.Grants)
	case "I2":
		return fmt.Sprintf("%d pins, %d snapshots", c.Pins, c.Snapshots)
	case "I3":
		return fmt.Sprintf("%d acknowledged writes", c.Acknowledged)
	case "I4":
		return fmt.Sprintf("%d pins, %d snapshots, %d rows", c.Pins, c.Snapshots, c.Rows)
	case "I5":
		return fmt.Sprintf("%d graceful, %d crashed epochs, %d refusals", c.Graceful, c.Crashed, refused)
	}
	return fmt.Sprintf("%d rows", c.Rows)
}
