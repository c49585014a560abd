package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

// Delete implements stores.DurableStore.
func (s *Objects) Delete(ctx context.Context, key string) (bool, error) {
	if err := stores.ValidateObjectKey(key); err != nil {
		return false, err
	}
	n, err := s.deleteAll(ctx, []string{key})
	if n > 0 || err != nil {
		return n > 0, err
	}
	// Nothing was there for the server that answered; ask for the proof.
	if m, err := s.loadManifest(ctx, key); err != nil || m == nil {
		return false, err
	}
	n, err = s.deleteAll(ctx, []string{key})
	return n > 0, err
}

// DeletePrefix implements stores.DurableStore. If it fails in the middle, count says how many are gone.
func (s *Objects) DeletePrefix(ctx context.Context, prefix string) (int, error) {
	if err := stores.ValidateDeletePrefix(prefix); err != nil {
		return 0, err
	}
	keys, err := s.List(ctx, prefix)
	count := 0
	for len(keys) > 0 && err == nil {
		// The manifest of a small object holds its bytes: few at a time.
		n := min(len(keys), 4*window)
		var deleted int
		deleted, err = s.deleteAll(ctx, keys[:n])
		count += deleted
		keys = keys[n:]
	}
	if err == nil {
		_, err = s.sweep(ctx, prefix, s.orphanAge)
	}
	return count, err
}

// deleteAll deletes objects by the sequence of their manifests, so that of several deletes of one object one
// has done it, and none takes an object that was put again in the meantime.
func (s *Objects) deleteAll(ctx context.Context, keys []string) (int, error) {
	ctx, cancel, err := s.step(ctx)
	if err != nil {
		return 0, err
	}
	defer cancel()
	subjects := make([]string, len(keys))
	for i, key := range keys {
		subjects[i] = s.names.manifest(key)
	}
	found, err := s.loadAll(ctx, subjects)
	if err != nil {
		return 0, err
	}
	var gone []manifest
	var requests []*natsMsg
	for i, m := range found {
		if m == nil {
			continue
		}
		parsed, err := parseManifest(keys[i], m)
		if err != nil {
			parsed = manifest{} // damaged, and to be deleted all the same
		}
		gone = append(gone, parsed)
		requests = append(requests, &natsMsg{Subject: s.link.api + ".STREAM.MSG.DELETE." + s.names.stream,
			Data: fmt.Appendf(nil, `{"seq":%d,"no_erase":true}`, m.Seq)})
	}
	count := 0
	doubt := make([]bool, len(requests))
	err = s.link.callAll(ctx, s.link.patience(), requests, func(i int, m *natsMsg) (bool, error) {
		err := parseDeleted(m)
		switch {
		case err == nil:
			count++
		case isGone(err):
			// Gone already: by this very call, if an answer of it was lost; else by somebody else.
			if doubt[i] {
				count++
			}
		default:
			doubt[i] = doubt[i] || errors.Is(err, errNoAnswer)
			return false, err
		}
		return true, nil
	})
	if err == nil {
		s.dropChunks(ctx, gone...)
	}
	return count, err
}

// isGone reports whether a delete failed because the message is not there: the server says it in one of two
// ways. If a later server finds a third, the delete ends as CodeUnavailable, which is true as well.
func isGone(err error) bool {
	var e *apiError
	return errors.As(err, &e) && (e.ErrCode == codeNoSequence || (e.ErrCode == codeDeleteFailed && strings.Contains(e.Description, "no message found")))
}

func parseDeleted(m *natsMsg) error {
	if !isReply(m) {
		return errNoAnswer
	}
	var r struct {
		Success bool      `json:"success"`
		Err     *apiError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &r); err != nil {
		return err
	}
	if r.Err != nil {
		return r.Err
	}
	if !r.Success {
		return errNoAnswer
	}
	return nil
}

// keepSweeping sweeps until the store is closed. A sweep that fails is tried again at the next turn.
func (s *Objects) keepSweeping() {
	ticker := time.NewTicker(s.orphanAge / 8)
	defer ticker.Stop()
	for {
		_, _ = s.Sweep(s.link.closed)
		select {
		case <-ticker.C:
		case <-s.link.closed.Done():
			return
		}
	}
}

// Sweep deletes the chunks of puts that ended without a manifest, and of deletes that were cut off, once they
// are older than Config.OrphanAge by the servers' clock. It returns the number of such puts. Anybody may
// sweep at any time; an open store does it by itself.
func (s *Objects) Sweep(ctx context.Context) (int, error) { return s.sweep(ctx, "", s.orphanAge) }

func (s *Objects) sweep(ctx context.Context, prefix string, age time.Duration) (int, error) {
	stepCtx, cancel, err := s.step(ctx)
	if err != nil {
		return 0, err
	}
	found, err := s.link.streamInfo(stepCtx, s.names.stream, s.names.below("c", prefix))
	cancel()
	if err != nil || found == nil {
		return 0, err
	}
	puts := map[string]manifest{} // by the filter of their chunks
	for subject := range found.State.Subjects {
		tokens := strings.Split(strings.TrimPrefix(subject, s.names.prefix+"c."), ".")
		if n := len(tokens) - 2; n > 0 {
			key := decode(strings.Join(tokens[:n], "."))
			puts[s.names.chunks(key, tokens[n])+"*"] = manifest{Key: key, Put: tokens[n], Chunks: 1}
		}
	}
	swept := 0
	for filter, put := range puts {
		orphan, err := s.isOrphan(ctx, put, filter, found.Time.Add(-age))
		if err != nil && messages.CodeOf(err) != messages.CodeCorrupt { // a damaged manifest is another's concern
			return swept, err
		}
		if orphan {
			s.dropChunks(ctx, put)
			swept++
		}
	}
	return swept, nil
}

// isOrphan reports whether no manifest names the chunks of a put, and they are old.
func (s *Objects) isOrphan(ctx context.Context, put manifest, filter string, before time.Time) (bool, error) {
	m, err := s.loadManifest(ctx, put.Key)
	if err != nil || (m != nil && m.Put == put.Put) {
		return false, err
	}
	newest, err := s.load(ctx, filter)
	return newest != nil && !newest.Time.After(before), err
}
