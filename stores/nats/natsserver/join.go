package natsserver

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/leasehold/leasehold/messages"
)

// metaGroup is JetStream's own name for the group of all members, which assigns the streams.
const metaGroup = "_meta_"

// Status is how far a server has come with its cluster.
type Status struct {
	// Members is how many servers the routes name; 1: it stands alone.
	Members int
	// Known is how many of them belong to JetStream's meta group, as far as this server has recorded on its disk.
	Known int
	// Reachable is how many of them this server sees now, itself included.
	Reachable int
	// Leader says that the meta group has a leader, and Current that this server has what it has.
	Leader, Current bool
}

func (s Status) String() string {
	return fmt.Sprintf("%d of %d members are reachable, %d belong to JetStream's group, leader: %t, up to date: %t",
		s.Reachable, s.Members, s.Known, s.Leader, s.Current)
}

// formed reports whether the server counts every member and has a part in a group that works. What a group
// has agreed upon once, any majority of it can go on from.
func (s Status) formed() bool { return s.Known >= s.Members && s.Leader && s.Current }

// Spare reports whether the others have a majority without this server. One that stands alone leaves nobody behind.
func (s Status) Spare() bool { return s.Members == 1 || s.Reachable-1 > s.Members/2 }

// Status returns where the server stands now.
func (s *Server) Status() Status {
	st := Status{Members: s.members, Known: 1, Reachable: 1, Leader: true, Current: s.ns.JetStreamEnabled()}
	if !s.ns.JetStreamIsClustered() {
		return st
	}
	group, ok := s.meta()
	return Status{Members: s.members, Known: len(group.Peers) + 1, Reachable: len(s.ns.ActivePeers()),
		Leader: ok && group.Leader != "", Current: ok && group.Committed > 0 && s.ns.JetStreamIsCurrent()}
}

func (s *Server) meta() (group server.RaftzGroup, ok bool) {
	groups := s.ns.Raftz(&server.RaftzOptions{GroupFilter: metaGroup})
	if groups == nil {
		return group, false
	}
	for _, account := range *groups { // one: the system account
		if group, ok = account[metaGroup]; ok {
			return group, true
		}
	}
	return group, false
}

// How often Join looks, and how often it says what it waits for.
const (
	lookEvery = 20 * time.Millisecond
	tellEvery = 3 * time.Second
)

// Join waits until the server may be relied upon. One that stands alone may at once. A member of a
// cluster waits until JetStream has a leader and it is up to date; and at the very first start of a
// cluster until every member is counted, and the leader knows that each of them has begun to
// record: before that, a member that dies can leave a cluster that is not able to elect. A member that restarts knows
// from its own disk that all were counted once, and then a majority is enough: it waits for no dead member.
//
// While it waits it tells log (nil: nobody) what for, every few seconds. It returns CodeUnavailable if the context ends
// before, and what the server itself calls fatal.
func (s *Server) Join(ctx context.Context, log *slog.Logger) error {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	// The peers and the log of the group have been read from the disk by now. A server that counts all members but
	// has recorded nothing does not count: it has only seen them.
	group, _ := s.meta()
	again := len(group.Peers)+1 >= s.members && group.PIndex > 0
	tell := time.NewTicker(tellEvery)
	defer tell.Stop()
	err := poll(ctx, lookEvery, "", func() bool {
		if s.failed() != nil {
			return true
		}
		st := s.Status()
		if st.formed() && (again || s.recorded()) {
			return true
		}
		select {
		case <-tell.C:
			log.Info("waiting for the NATS cluster", "members", st.Members, "reachable", st.Reachable, "known", st.Known,
				"leader", st.Leader, "current", st.Current, "first_start", !again)
		default:
		}
		return false
	})
	if failed := s.failed(); failed != nil {
		return failed
	}
	if err != nil {
		e := messages.AsError(err)
		e.Message = "the members of the NATS cluster did not come together: " + s.Status().String()
		return e
	}
	return s.catchUp(ctx, log)
}

// catchUpTimeout bounds the wait for the replicas on this server.
const catchUpTimeout = 30 * time.Second

// catchUp waits until the replicas on this server have what the others have: whoever stops the next server once this one
// answers must not leave a majority of which one knows nothing. It is no condition: a stream that cannot catch up, for
// whatever reason, must not keep the node from starting.
func (s *Server) catchUp(ctx context.Context, log *slog.Logger) error {
	bounded, cancel := context.WithTimeout(ctx, catchUpTimeout)
	defer cancel()
	var last string
	err := poll(bounded, lookEvery, "", func() bool {
		health := s.ns.Healthz(nil)
		last = health.Error
		return s.failed() != nil || health.Status == "ok"
	})
	switch {
	case s.failed() != nil:
		return s.failed()
	case ctx.Err() != nil:
		return messages.AsError(ctx.Err())
	case err != nil:
		log.Warn("not all replicas on this NATS server have caught up; do not stop another one yet", "error", last)
	}
	return nil
}

// recorded reports, at the leader of the meta group, whether every member has begun to record and can be
// given streams. Anybody else cannot know, and does not need to.
func (s *Server) recorded() bool {
	if !s.ns.JetStreamIsClustered() || !s.ns.JetStreamIsLeader() {
		return true
	}
	group, ok := s.meta()
	for _, peer := range group.Peers {
		if peer.LastReplicatedIndex == 0 {
			return false
		}
	}
	return ok && len(s.ns.JetStreamClusterPeers()) >= s.members
}
