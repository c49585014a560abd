package cluster

import (
	"context"

	"github.com/leasehold/leasehold/actors/client"
	"github.com/leasehold/leasehold/messages"
)

// inside is the transport of a member's own client: what this node can answer does not leave the process.
type inside struct {
	member *Member
	remote client.Transport
}

var _ client.Sure = (*inside)(nil)

// Send implements client.Transport.
func (t *inside) Send(ctx context.Context, target string, req *messages.Request) (*messages.Reply, error) {
	switch target {
	case "":
		return t.member.answerAny(ctx, req), nil
	case t.member.self:
		return t.member.answer(ctx, req), nil
	}
	return t.remote.Send(ctx, target, req)
}

// Sure implements client.Sure.
func (t *inside) Sure(target string) bool { return target == "" || target == t.member.self }
