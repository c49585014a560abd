package natsserver

import (
	"context"
	"net"
	"strconv"

	"github.com/leasehold/leasehold/messages"
)

// Listenable returns CodeUnavailable if one of the addresses is in use, or is none of this machine. It creates nothing, unlike Start,
// which learns that only after the server has begun with its folder. A port of 0 is any that is free.
func (c Config) Listenable(ctx context.Context) error {
	addresses := []string{net.JoinHostPort(c.Host, strconv.Itoa(max(c.Port, 0)))}
	if c.ClusterName != "" {
		addresses = append(addresses, net.JoinHostPort(c.ClusterHost, strconv.Itoa(max(c.ClusterPort, 0))))
	}
	for _, address := range addresses {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err == nil {
			err = l.Close()
		}
		if err != nil {
			return &messages.Error{Code: messages.CodeUnavailable, Object: address, Message: "the NATS server cannot listen", Err: err}
		}
	}
	return nil
}
