package natsserver

import (
	"context"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// handOverTimeout bounds how long Leave waits for others to take over.
const handOverTimeout = 2 * time.Second

// Leave hands over what the server leads (the streams, their consumers, and JetStream's own group), waits until others lead it,
// and stops. New clients are refused from the beginning, and those that are connected are sent away at
// the end; they reconnect to another member. It waits 2 s at most, or until ctx ends: a member that is the last one has nobody
// to hand over to. The server has ended when it returns.
//
// Clients of the other members notice nothing, apart from requests that are in flight at the leader in this moment: their answer
// is lost, and their sender has to ask again.
func (s *Server) Leave(ctx context.Context) {
	if s.ns.JetStreamIsClustered() && s.ns.Running() {
		// The lame duck mode refuses clients, hands over what the server leads, and lets it be elected no more. Then it
		// waits for fixed times, of which the shutdown below frees it.
		over := make(chan struct{})
		go func() {
			defer close(over)
			s.ns.LameDuckShutdown()
		}()
		defer func() { <-over }()
		ctx, cancel := context.WithTimeout(ctx, handOverTimeout)
		defer cancel()
		_ = poll(ctx, often, "", s.followed) // if it does not, then it is as if the server had died
	}
	s.Shutdown()
}

// followed reports whether every group that the server has a part in is led by another member.
func (s *Server) followed() bool {
	info, err := s.ns.Jsz(&server.JSzOptions{Streams: true, Consumer: true, Limit: 1 << 20})
	if err != nil || info.Meta == nil {
		return false
	}
	elsewhere := func(leader string) bool { return leader != "" && leader != s.ns.Name() }
	if !elsewhere(info.Meta.Leader) {
		return false
	}
	for _, account := range info.AccountDetails {
		for _, stream := range account.Streams {
			if stream.Cluster != nil && len(stream.Cluster.Replicas) > 0 && !elsewhere(stream.Cluster.Leader) {
				return false
			}
			for _, consumer := range stream.Consumer {
				if consumer.Cluster != nil && len(consumer.Cluster.Replicas) > 0 && !elsewhere(consumer.Cluster.Leader) {
					return false
				}
			}
		}
	}
	return true
}
