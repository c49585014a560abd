package sim

import (
	"context"
	"time"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

// leases and durable are a node's stores: its link to the real ones.
type (
	leases struct {
		*link
		owner string
	}
	durable struct {
		*link
		owner string
	}
)

var (
	_ stores.LeaseStore   = leases{}
	_ stores.LeaseLister  = leases{}
	_ stores.DurableStore = durable{}
)

type record struct {
	lease messages.Lease
	ok    bool
}

func (s leases) Read(ctx context.Context, key messages.Key) (messages.Lease, bool, error) {
	out, err := call(ctx, s.link, "Read", "", func() (record, error) {
		lease, ok, err := s.w.leases.Read(context.Background(), key)
		return record{lease, ok}, err
	})
	return out.lease, out.ok, err
}

func (s leases) Acquire(ctx context.Context, key messages.Key, owner string, ttl time.Duration) (messages.Lease, error) {
	return call(ctx, s.link, "Acquire", "", func() (messages.Lease, error) {
		lease, err := s.w.leases.Acquire(context.Background(), key, owner, ttl)
		s.w.granted(messages.OpAcquire, lease, err)
		if err == nil {
			s.stopOpening()
		}
		return lease, err
	})
}

func (s leases) Renew(ctx context.Context, key messages.Key, owner string, epoch uint64, ttl time.Duration) (messages.Lease, error) {
	return call(ctx, s.link, "Renew", "", func() (messages.Lease, error) {
		lease, err := s.w.leases.Renew(context.Background(), key, owner, epoch, ttl)
		s.w.granted(messages.OpRenew, lease, err)
		return lease, err
	})
}

func (s leases) Release(ctx context.Context, key messages.Key, owner string, epoch uint64) error {
	_, err := call(ctx, s.link, "Release", "", func() (none, error) {
		err := s.w.leases.Release(context.Background(), key, owner, epoch)
		s.w.granted(messages.OpRelease, messages.Lease{Key: key, Owner: owner, Epoch: epoch}, err)
		return none{}, err
	})
	return err
}

func (s leases) MarkForgotten(ctx context.Context, key messages.Key, owner string, epoch uint64) error {
	_, err := call(ctx, s.link, "MarkForgotten", "", func() (none, error) {
		err := s.w.leases.MarkForgotten(context.Background(), key, owner, epoch)
		s.w.granted(messages.OpForget, messages.Lease{Key: key, Owner: owner, Epoch: epoch, Floor: epoch}, err)
		return none{}, err
	})
	return err
}

func (s leases) MarkLineage(ctx context.Context, key messages.Key, owner string, epoch uint64) error {
	_, err := call(ctx, s.link, "MarkLineage", "", func() (none, error) {
		err := s.w.leases.MarkLineage(context.Background(), key, owner, epoch)
		s.w.granted(messages.OpLineage, messages.Lease{Key: key, Owner: owner, Epoch: epoch}, err)
		return none{}, err
	})
	return err
}

func (s leases) History(ctx context.Context, key messages.Key) ([]messages.LeaseEntry, error) {
	return call(ctx, s.link, "History", "", func() ([]messages.LeaseEntry, error) {
		return s.w.leases.History(context.Background(), key)
	})
}

func (s leases) Leases(ctx context.Context, after string, limit int) ([]messages.Lease, error) {
	return call(ctx, s.link, "Leases", "", func() ([]messages.Lease, error) {
		return s.w.leases.Leases(context.Background(), after, limit)
	})
}

func (s leases) Forgotten(ctx context.Context, after string, limit int) ([]messages.Lease, error) {
	return call(ctx, s.link, "Forgotten", "", func() ([]messages.Lease, error) {
		return s.w.leases.Forgotten(context.Background(), after, limit)
	})
}

type (
	none    struct{}
	content struct {
		data []byte
		ok   bool
	}
)

func (s durable) PutIfAbsent(ctx context.Context, name string, data []byte) (bool, error) {
	if o, err := messages.ParseObject(name); err == nil && o.Kind == messages.ObjectManifest {
		s.stopPublishing()
	}
	return call(ctx, s.link, "PutIfAbsent", name, func() (bool, error) {
		created, err := s.w.durable.PutIfAbsent(context.Background(), name, data)
		if created {
			s.w.landed(name, data, s.owner)
		}
		return created, err
	})
}

func (s durable) Get(ctx context.Context, name string, most int64) ([]byte, bool, error) {
	out, err := call(ctx, s.link, "Get", name, func() (content, error) {
		data, ok, err := s.w.durable.Get(context.Background(), name, most)
		return content{data, ok}, err
	})
	return out.data, out.ok, err
}

func (s durable) List(ctx context.Context, prefix string) ([]string, error) {
	return call(ctx, s.link, "List", prefix, func() ([]string, error) {
		names, err := s.w.durable.List(context.Background(), prefix)
		s.w.listed(prefix, s)
		return names, err
	})
}

func (s durable) Delete(ctx context.Context, name string) (bool, error) {
	return call(ctx, s.link, "Delete", name, func() (bool, error) {
		return s.w.durable.Delete(context.Background(), name)
	})
}

func (s durable) DeletePrefix(ctx context.Context, prefix string) (int, error) {
	return call(ctx, s.link, "DeletePrefix", prefix, func() (int, error) {
		return s.w.durable.DeletePrefix(context.Background(), prefix)
	})
}
