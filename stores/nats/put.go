package nats

import (
	"context"
	"crypto/rand"
	"strconv"

	natsgo "github.com/nats-io/nats.go"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

type natsMsg = natsgo.Msg

func newPutID() string { return rand.Text() }

// window is how many chunks travel together.
const window = 8

// PutIfAbsent implements stores.DurableStore. An object that does not fit into one message goes as chunks under
// a random name first; the manifest, one compare-and-set, decides and makes it visible. What a put that
// failed has left behind is deleted by Sweep.
func (s *Objects) PutIfAbsent(ctx context.Context, key string, data []byte) (bool, error) {
	if err := stores.ValidateObjectKey(key); err != nil {
		return false, err
	}
	m := manifest{Version: version, Key: key, Put: newPutID(), Size: len(data), SHA256: digest(data)}
	if len(data) <= s.chunk {
		return s.commit(ctx, m, data)
	}
	// A cheap look first, so that a lost race does not send an image for nothing.
	if found, err := s.load(ctx, s.names.manifest(key)); err != nil || found != nil {
		return false, err
	}
	start := s.now()
	m.Chunk, m.Chunks = s.chunk, (len(data)+s.chunk-1)/s.chunk
	for from := 0; from < m.Chunks; from += window {
		if err := s.putChunks(ctx, m, data, from, min(from+window, m.Chunks)); err != nil {
			return false, err
		}
	}
	// Chunks without a manifest are swept when they are old: no manifest may follow then.
	if took := s.now().Sub(start); took > s.orphanAge/2 {
		return false, &messages.Error{Code: messages.CodeUnavailable, Object: key, Message: "the put took too long; it was given up"}
	}
	created, err := s.commit(ctx, m, nil)
	if err == nil && !created {
		s.dropChunks(ctx, m)
	}
	return created, err
}

func (s *Objects) putChunks(ctx context.Context, m manifest, data []byte, from, to int) error {
	ctx, cancel, err := s.step(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	requests := make([]*natsMsg, 0, to-from)
	for n := from; n < to; n++ {
		subject := s.names.chunks(m.Key, m.Put) + strconv.Itoa(n)
		requests = append(requests, compareAndSet(subject, subject, 0, data[n*m.Chunk:min((n+1)*m.Chunk, m.Size)]))
	}
	return s.link.callAll(ctx, bulk(), requests, func(_ int, reply *natsMsg) (bool, error) {
		a, err := parseAck(reply)
		switch {
		case err != nil:
			return false, err
		case a.Err == nil || a.Err.ErrCode == codeWrongSequence: // there already, from a try whose answer was lost
			return true, nil
		case storageCodes[a.Err.ErrCode]:
			return true, noRoom(a.Err)
		}
		return false, a.Err
	})
}

// commit puts the manifest. If it is there already, it looks whose it is: a lost answer is settled so.
func (s *Objects) commit(ctx context.Context, m manifest, inline []byte) (created bool, err error) {
	ctx, cancel, err := s.step(ctx)
	if err != nil {
		return false, err
	}
	defer cancel()
	body, err := m.encode(inline)
	if err != nil {
		return false, err
	}
	subject := s.names.manifest(m.Key)
	for p := s.link.patience(); ; {
		taken := false
		err := s.link.call(ctx, compareAndSet(subject, subject, 0, body), func(reply *natsMsg) (bool, error) {
			a, err := parseAck(reply)
			switch {
			case err != nil:
				return false, err // the same bytes again: at most one is stored
			case a.Err == nil:
				created = true
				return true, nil
			case a.Err.ErrCode == codeWrongSequence:
				taken = true
				return true, nil
			case storageCodes[a.Err.ErrCode]:
				return true, noRoom(a.Err)
			}
			return false, a.Err
		})
		if err != nil || created {
			return created, err
		}
		if taken {
			found, err := s.load(ctx, subject)
			if err != nil {
				return false, err
			}
			if found != nil {
				there, err := parseManifest(m.Key, found)
				return there.Put == m.Put, err
			}
		}
		// Deleted in the meantime, or asked of a server that is behind.
		if p.wait(ctx) != nil {
			return false, s.link.gaveUp(ctx, nil)
		}
	}
}

// dropChunks deletes the chunks of a put or of a deleted object. If that fails, Sweep does it later.
func (s *Objects) dropChunks(ctx context.Context, ms ...manifest) {
	var filters []string
	for _, m := range ms {
		if m.Chunks > 0 {
			filters = append(filters, s.names.chunks(m.Key, m.Put)+"*")
		}
	}
	if len(filters) == 0 {
		return
	}
	ctx, cancel, err := s.step(ctx)
	if err != nil {
		return
	}
	defer cancel()
	_ = s.purge(ctx, filters)
}
