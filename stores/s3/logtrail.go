package s3

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// A renewal log's trail holds at most logRoom replacements; see trailRoom.
const (
	logRoom     = 128
	logOverflow = 64
)

// makeLogRoom takes the oldest replacements out of a version that is about to be written, if its trail is too long, and
// copies them to an overflow object first. The name of that follows from them, so whoever does it writes the same object.
func (r requester) makeLogRoom(ctx context.Context, next *renewalLog) error {
	if len(next.Trail) <= logRoom {
		return nil
	}
	over := next.Trail[:logOverflow]
	if err := r.keep(ctx, kindLogTrail, logChunkName(next.Name, over), over); err != nil {
		return err
	}
	next.Trail = next.Trail[logOverflow:]
	return nil
}

func logChunkName(log string, over []replacement) string {
	return chunkName(log, over[0].Version, over[len(over)-1].Version)
}

// logMember is what an entry of a record names.
type logMember struct {
	log    string
	member int
}

// logged is a renewal in a renewal log.
type logged struct{ atMS, ttlMS int64 }

// withRenewals puts the renewals that stand in renewal logs between the entries of a record that name them.
func (l *Leases) withRenewals(ctx context.Context, trail []entry) ([]messages.LeaseEntry, error) {
	since := map[string]uint64{}
	wanted := map[logMember]bool{}
	for _, e := range trail {
		if e.Log == "" {
			continue
		}
		wanted[logMember{e.Log, e.Member}] = true
		if first, ok := since[e.Log]; !ok || e.Since < first {
			since[e.Log] = e.Since
		}
	}
	renewals := map[logMember][]logged{}
	for name, after := range since {
		replacements, err := l.replacements(ctx, name, after)
		if err != nil {
			return nil, err
		}
		for m := range wanted {
			if m.log == name {
				renewals[m] = renewalsOf(m.member, replacements)
			}
		}
	}
	var entries []messages.LeaseEntry
	add := func(e messages.LeaseEntry) {
		e.Seq = trail[0].Seq + uint64(len(entries))
		if n := len(entries); n > 0 && e.At.Before(entries[n-1].At) {
			e.At = entries[n-1].At // by the clocks of two processes, which are estimates
		}
		entries = append(entries, e)
	}
	for _, e := range trail {
		add(e.public())
		if e.Log == "" {
			continue
		}
		end := e.EndMS
		for _, r := range renewals[logMember{e.Log, e.Member}] {
			end = max(end, r.atMS+r.ttlMS)
			renewed := e.public()
			renewed.Op, renewed.TTL = messages.OpRenew, time.Duration(r.ttlMS)*time.Millisecond
			renewed.At, renewed.End = time.UnixMilli(r.atMS).UTC(), time.UnixMilli(end).UTC()
			add(renewed)
		}
	}
	return entries, nil
}

func renewalsOf(member int, replacements []replacement) []logged {
	var found []logged
	for _, r := range replacements {
		for _, b := range r.Renewed {
			if b.Members.has(member) {
				found = append(found, logged{r.AtMS, b.TTLMS})
			}
		}
	}
	return found
}

// replacements returns what a renewal log's versions after one have changed, as far as it is still there.
func (l *Leases) replacements(ctx context.Context, name string, after uint64) ([]replacement, error) {
	// First the log: all that had overflowed when it was written is there to be listed after.
	v, err := l.fetchLog(ctx, l.requester, name)
	if err != nil || v.log == nil {
		return nil, err
	}
	found := v.log.Trail
	if first := found[0].Version; first > after+1 {
		names, err := l.chunks(ctx, kindLogTrail, name, 0)
		if err != nil {
			return nil, err
		}
		wanted := names[:0]
		for _, chunk := range names {
			if chunk > chunkName(name, max(after+1, logOverflow)-logOverflow, 0) && chunk < chunkName(name, first, 0) {
				wanted = append(wanted, chunk)
			}
		}
		chunks, err := inParallel(ctx, wanted, func(ctx context.Context, chunk string) ([]replacement, error) {
			return readChunk(ctx, l.requester, kindLogTrail, chunk, func(over []replacement) string { return logChunkName(name, over) })
		})
		if err != nil {
			return nil, err
		}
		found = slices.Concat(slices.Concat(chunks...), found)
		slices.SortFunc(found, func(a, b replacement) int { return cmp.Compare(a.Version, b.Version) })
	}
	if err := followEachOther(found); err != nil {
		return nil, &messages.Error{Code: messages.CodeCorrupt, Object: kindLogTrail + name, Message: "the trail of the renewal log has a gap or breaks the rules", Err: err}
	}
	return found, nil
}
