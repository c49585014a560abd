package nats

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/leasehold/leasehold/stores"
)

// Get implements stores.DurableStore. An object whose bytes are not those that were put, or not there, is
// CodeCorrupt.
func (s *Objects) Get(ctx context.Context, key string, most int64) ([]byte, bool, error) {
	if err := stores.ValidateObjectKey(key); err != nil {
		return nil, false, err
	}
	missing := 0
	for p := s.link.patience(); ; {
		m, err := s.loadManifest(ctx, key)
		if err != nil || m == nil {
			return nil, false, err
		}
		if int64(m.Size) > most {
			return nil, false, stores.Oversized(key, int64(m.Size), most)
		}
		data, whole, err := s.read(ctx, m)
		if err != nil {
			return nil, false, err
		}
		if whole {
			if digest(data) != m.SHA256 {
				return nil, false, corrupt(key, "the bytes of the object are not those that were put")
			}
			return data, true, nil
		}
		// A chunk is gone: so will the manifest be, if the object is being deleted.
		if missing++; missing == 5 {
			return nil, false, corrupt(key, "a part of the object is missing")
		}
		if p.wait(ctx) != nil {
			return nil, false, s.link.gaveUp(ctx, nil)
		}
	}
}

// read returns the bytes that a manifest promises; whole is false if some are not there.
func (s *Objects) read(ctx context.Context, m *manifest) (data []byte, whole bool, err error) {
	if m.Chunks == 0 {
		return m.inline, true, nil
	}
	data = make([]byte, 0, m.Size)
	for from := 0; from < m.Chunks; from += window {
		var subjects []string
		for n := from; n < min(from+window, m.Chunks); n++ {
			subjects = append(subjects, s.names.chunks(m.Key, m.Put)+strconv.Itoa(n))
		}
		stepCtx, cancel, err := s.step(ctx)
		if err != nil {
			return nil, false, err
		}
		found, err := s.loadAll(stepCtx, subjects)
		cancel()
		if err != nil {
			return nil, false, err
		}
		for _, chunk := range found {
			if chunk == nil {
				return nil, false, nil
			}
			if len(chunk.Data) > m.Size-len(data) {
				return nil, false, corrupt(m.Key, "the parts of the object are larger than its manifest says")
			}
			data = append(data, chunk.Data...)
		}
	}
	return data, len(data) == m.Size, nil
}

// loadAll returns the newest message of each subject or filter, in one round trip; nil: there is none.
func (s *Objects) loadAll(ctx context.Context, subjects []string) ([]*stored, error) {
	p := s.link.patience()
	if len(subjects) > 1 {
		p = bulk()
	}
	requests := make([]*natsMsg, len(subjects))
	for i, subject := range subjects {
		requests[i] = s.link.get(s.names.stream, getLast(subject))
	}
	found := make([]*stored, len(subjects))
	err := s.link.callAll(ctx, p, requests, func(i int, m *natsMsg) (bool, error) {
		var err error
		found[i], err = parseStored(m)
		return err == nil, err
	})
	return found, err
}

// List implements stores.DurableStore.
func (s *Objects) List(ctx context.Context, prefix string) ([]string, error) {
	if err := stores.ValidateListPrefix(prefix); err != nil {
		return nil, err
	}
	filter := s.names.below("m", prefix)
	for p := s.link.patience(); ; {
		subjects, ok, err := s.subjects(ctx, filter)
		if err != nil {
			return nil, err
		}
		if ok {
			var keys []string
			for _, subject := range subjects {
				if key := decode(strings.TrimPrefix(subject, s.names.prefix+"m.")); strings.HasPrefix(key, prefix) {
					keys = append(keys, key)
				}
			}
			slices.Sort(keys)
			return keys, nil
		}
		if p.wait(ctx) != nil {
			return nil, s.link.gaveUp(ctx, nil)
		}
	}
}

// subjects returns the subjects that match a filter; ok is false if they may not be all.
func (s *Objects) subjects(ctx context.Context, filter string) (subjects []string, ok bool, err error) {
	last, err := s.load(ctx, filter)
	if err != nil {
		return nil, false, err
	}
	var seq uint64
	if last != nil {
		seq = last.Seq
	}
	stepCtx, cancel, err := s.step(ctx)
	if err != nil {
		return nil, false, err
	}
	found, err := s.link.streamInfo(stepCtx, s.names.stream, filter)
	cancel()
	if err != nil {
		return nil, false, err
	}
	if found == nil {
		return nil, false, corrupt(s.names.stream, "the stream is gone")
	}
	// Whoever listed knows the last message, and it is proved to be the last one: so nothing is missing.
	if found.State.LastSeq < seq {
		return nil, false, nil
	}
	if ok, err = s.confirm(ctx, filter, seq); !ok || err != nil {
		return nil, false, err
	}
	for subject := range found.State.Subjects {
		subjects = append(subjects, subject)
	}
	return subjects, true, nil
}
