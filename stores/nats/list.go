package nats

import (
	"context"
	"fmt"
	"slices"
	"strings"

	natsgo "github.com/nats-io/nats.go"

	"github.com/leasehold/leasehold/messages"
)

// Leases implements stores.LeaseLister. A limit below 1 is CodeInvalidArgument. It may lack a key that was
// acquired for the first time while the leadership of the bucket changed.
func (s *Leases) Leases(ctx context.Context, after string, limit int) ([]messages.Lease, error) {
	return s.list(ctx, after, limit, func(messages.Lease) bool { return true })
}

// Forgotten implements stores.LeaseLister, like Leases. It reads all records up to the last that it returns.
func (s *Leases) Forgotten(ctx context.Context, after string, limit int) ([]messages.Lease, error) {
	return s.list(ctx, after, limit, func(l messages.Lease) bool { return l.Floor > 0 })
}

func (s *Leases) list(ctx context.Context, after string, limit int, want func(messages.Lease) bool) ([]messages.Lease, error) {
	if limit < 1 {
		return nil, &messages.Error{Code: messages.CodeInvalidArgument, Message: fmt.Sprintf("limit %d is below 1", limit)}
	}
	ctx, cancel, err := s.link.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	keys, err := s.keys(ctx, after)
	if err != nil {
		return nil, err
	}
	var leases []messages.Lease
	for len(keys) > 0 && len(leases) < limit {
		n := min(len(keys), max(limit-len(leases), 100), maxTogether)
		attempts := make([]*attempt, n)
		for i, key := range keys[:n] {
			// Not confirmed: a list is of no one instant anyway.
			attempts[i] = &attempt{names: s.names, key: key, want: proposal{Op: opRead}, replicas: 1}
		}
		keys = keys[n:]
		s.run(ctx, attempts)
		for _, a := range attempts {
			if a.err != nil {
				return nil, a.err
			}
			if a.after == nil || len(leases) == limit {
				continue
			}
			if lease := a.after.lease(a.key); want(lease) {
				leases = append(leases, lease)
			}
		}
	}
	return leases, nil
}

// keys returns the keys that have messages, from the first one after the given text, in order.
func (s *Leases) keys(ctx context.Context, after string) ([]messages.Key, error) {
	prefix := s.names.prefix + "lease."
	found, err := s.link.streamInfo(ctx, s.names.stream, prefix+">")
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, corrupt(s.names.stream, "the bucket is gone")
	}
	seen := map[messages.Key]bool{}
	var keys []messages.Key
	for subject := range found.State.Subjects {
		parts := strings.Split(strings.TrimPrefix(subject, prefix), ".")
		if len(parts) != 3 {
			continue // not ours
		}
		key, err := messages.NewKey(messages.OrgID(parts[0]), messages.TenantID(parts[1]))
		if err != nil || seen[key] || key.String() <= after {
			continue
		}
		seen[key] = true
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b messages.Key) int { return strings.Compare(a.String(), b.String()) })
	return keys, nil
}

// span is a part of a stream that is still to be read.
type span struct{ from, to uint64 }

// maxSpans is how many parts of a key's trail are read at once.
const maxSpans = 32

// History implements stores.LeaseStore. It returns the newest Config.KeepEntries grants (acquire, release, forget) and
// the newest Config.KeepEntries renewals.
func (s *Leases) History(ctx context.Context, key messages.Key) ([]messages.LeaseEntry, error) {
	if err := key.Validate(); err != nil {
		return nil, err
	}
	newest, err := s.do(ctx, key, proposal{Op: opRead})
	if err != nil || newest.after == nil {
		return nil, err
	}
	ctx, cancel, err := s.link.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	found, err := s.scan(ctx, key, span{1, newest.cur.seq})
	if err != nil {
		return nil, err
	}
	var entries []messages.LeaseEntry
	for _, m := range found {
		p, _, ok := s.names.parse(key, m)
		if !ok {
			continue
		}
		after, granted := p.judge(m.Time.UnixNano())
		if !granted {
			continue
		}
		lease := after.lease(key)
		entries = append(entries, messages.LeaseEntry{Seq: m.Seq, Op: p.Op, Owner: lease.Owner, Epoch: lease.Epoch, TTL: lease.TTL,
			End: lease.End, Floor: lease.Floor, At: timeAt(after.At)})
	}
	return entries, nil
}

// scan reads all messages of a key between two sequences. A leader answers one at a time ("the next
// one from here"), so the stream is cut into spans that are read side by side, and cut again.
func (s *Leases) scan(ctx context.Context, key messages.Key, all span) ([]*stored, error) {
	var found []*stored
	p := s.link.patience()
	for spans := []span{all}; len(spans) > 0; {
		spans = split(spans)
		requests := make([]*natsgo.Msg, len(spans))
		for i, sp := range spans {
			requests[i] = s.link.get(s.names.stream, getNext(s.names.key(key), sp.from))
		}
		replies, last := s.link.exchange(ctx, requests, p.try)
		var left []span
		pause := false
		for i, sp := range spans {
			m, err := parseStored(replies[i])
			switch {
			case err != nil:
				pause, last = true, err
				left = append(left, sp)
			case m == nil || m.Seq > sp.to: // nothing in this span
			default:
				found = append(found, m)
				if m.Seq < sp.to {
					left = append(left, span{m.Seq + 1, sp.to})
				}
			}
		}
		spans = left
		if pause && p.wait(ctx) != nil {
			return nil, s.link.gaveUp(ctx, last)
		}
	}
	slices.SortFunc(found, func(a, b *stored) int {
		if a.Seq < b.Seq {
			return -1
		}
		return 1
	})
	return found, nil
}

// split cuts the spans in half until there are enough of them.
func split(spans []span) []span {
	for len(spans) > 0 && len(spans) < maxSpans {
		var cut []span
		for i, sp := range spans {
			if middle := sp.from + (sp.to-sp.from)/2; middle < sp.to && len(cut)+len(spans)-i < maxSpans {
				cut = append(cut, span{sp.from, middle}, span{middle + 1, sp.to})
			} else {
				cut = append(cut, sp)
			}
		}
		if len(cut) == len(spans) {
			break
		}
		spans = cut
	}
	return spans
}
