package actors

import (
	"context"
	"strings"
	"time"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/planted"
	"github.com/leasehold/leasehold/snapshotactor"
)

// durable returns the durable store as the snapshot child of a tenant sees it.
func (n *Node) durable() snapshotactor.Store {
	if n.cfg.Planted.Has(planted.ServeBeforePin) {
		return latePin{n.cfg.Durable, n}
	}
	return n.cfg.Durable
}

// latePin is the planted fault serve-before-pin: the pin of an epoch is reported as put, and is put
// only a while later.
type latePin struct {
	snapshotactor.Store
	node *Node
}

func (s latePin) PutIfAbsent(ctx context.Context, key string, data []byte) (bool, error) {
	kind, err := messages.KindOf(data)
	if err != nil || kind != messages.KindBase || !strings.HasSuffix(key, "/base.json") {
		return s.Store.PutIfAbsent(ctx, key, data)
	}
	s.node.system.Go(func() {
		wait := time.NewTimer(2 * s.node.cfg.TTL)
		defer wait.Stop()
		select {
		case <-wait.C:
		case <-s.node.ended:
			return
		}
		_, _ = s.Store.PutIfAbsent(context.Background(), key, data)
	})
	return true, nil
}
