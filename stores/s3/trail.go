package s3

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/leasehold/leasehold/messages"
)

// A record holds at most trailRoom entries. When it is full, its oldest overflowSize are copied to an
// overflow object before a version without them is written. All nodes must agree on the two: they belong to
// the format.
const (
	trailRoom    = 32
	overflowSize = 16
	readsAtOnce  = 16
)

// makeRoom returns the entries of a record that a new one can be appended to. What it copies stands in
// a version that was written, and its name follows from it, so whoever does it writes the same
// object, once or many times.
func (l *Leases) makeRoom(ctx context.Context, key messages.Key, trail []entry) ([]entry, error) {
	if len(trail) < trailRoom {
		return trail, nil
	}
	over := trail[:overflowSize]
	if err := l.keep(ctx, kindTrail, overflowName(key, over), over); err != nil {
		return nil, err
	}
	return trail[overflowSize:], nil
}

// keep writes an overflow object, unless it is there already: then it is the same.
func (r requester) keep(ctx context.Context, kind, name string, over any) error {
	data, err := json.Marshal(over)
	if err != nil {
		return err
	}
	err = r.repeat(ctx, int64(len(data)), func(ctx context.Context) error {
		_, err := r.client.PutObject(ctx, &awss3.PutObjectInput{
			Bucket: &r.cfg.Bucket, Key: r.name(kind, name), Body: bytes.NewReader(data), IfNoneMatch: aws.String("*"),
			ServerSideEncryption: types.ServerSideEncryption(r.cfg.SSE), SSEKMSKeyId: optional(r.cfg.KMSKeyID),
		})
		return err
	})
	if out := outcomeOf(err); out != done && out != precondition {
		return r.failure(ctx, err, "", "the audit trail cannot be written")
	}
	return nil
}

// overflowName is "<org>/<tenant>/<first>-<last>", the numbers so wide that they sort as text.
func overflowName(key messages.Key, over []entry) string {
	return chunkName(key.String(), over[0].Seq, over[len(over)-1].Seq)
}

func chunkName(of string, first, last uint64) string {
	return fmt.Sprintf("%s/%020d-%020d", of, first, last)
}

// History implements stores.LeaseStore. It takes a GET, a LIST, and a GET for each 16 entries of the record; for each renewal
// log that these name a GET and a LIST, and a GET for each 64 of its replacements since. If a lifecycle rule of the bucket
// expires overflow objects, the trail begins after them, or lacks the renewals that stood in them. A gap in what is left is
// CodeCorrupt. The numbers of the entries (Seq) count what is there.
func (l *Leases) History(ctx context.Context, key messages.Key) ([]messages.LeaseEntry, error) {
	if err := key.Validate(); err != nil {
		return nil, err
	}
	// First the record: all that had overflowed when it was written is there to be listed after.
	s, err := l.loadRecord(ctx, key)
	if err != nil {
		return nil, err
	}
	var names []string
	if s.rec == nil || s.rec.Trail[0].Seq > 1 {
		if names, err = l.overflow(ctx, key, 0); err != nil {
			return nil, err
		}
	}
	if s.rec == nil {
		if len(names) > 0 {
			return nil, errVanished(key)
		}
		return nil, nil
	}
	var trail []entry
	chunks, err := l.overflowed(ctx, key, names)
	if err != nil {
		return nil, err
	}
	for _, chunk := range chunks {
		for _, e := range chunk {
			if e.Seq < s.rec.Trail[0].Seq { // else it overflowed after the record was read
				trail = append(trail, e)
			}
		}
	}
	slices.SortFunc(trail, func(a, b entry) int { return cmp.Compare(a.Seq, b.Seq) })
	trail = append(trail, s.rec.Trail...)
	if err := consistent(trail, trail[0].Seq == 1); err != nil {
		return nil, corrupt(key, kindTrail+key.String(), "the audit trail has a gap or breaks the rules", err)
	}
	return l.withRenewals(ctx, trail)
}

// overflow lists the overflow objects of a key, at most limit; 0: all.
func (l *Leases) overflow(ctx context.Context, key messages.Key, limit int) ([]string, error) {
	return l.chunks(ctx, kindTrail, key.String(), limit)
}

func (l *Leases) chunks(ctx context.Context, kind, of string, limit int) ([]string, error) {
	var names []string
	err := l.list(ctx, kind, of+"/", "", limit, func(name string) bool {
		names = append(names, name)
		return limit == 0 || len(names) < limit
	})
	if err != nil {
		return nil, l.failure(ctx, err, "", "the audit trail cannot be listed")
	}
	return names, nil
}

func (l *Leases) overflowed(ctx context.Context, key messages.Key, names []string) ([][]entry, error) {
	return inParallel(ctx, names, func(ctx context.Context, name string) ([]entry, error) {
		chunk, err := readChunk(ctx, l.requester, kindTrail, name, func(chunk []entry) string { return overflowName(key, chunk) })
		if e, ok := errors.AsType[*messages.Error](err); ok && e.Code == messages.CodeCorrupt {
			e.Key = key.String()
		}
		return chunk, err
	})
}

// readChunk reads an overflow object, whose name follows from what is in it; nil: it expired between the list and the read.
func readChunk[T any](ctx context.Context, r requester, kind, name string, nameOf func([]T) string) (chunk []T, err error) {
	data, _, err := r.fetch(ctx, kind, name, maxRecordBytes)
	if outcomeOf(err) == absent {
		return nil, nil
	}
	if err != nil {
		return nil, r.failure(ctx, err, "", "the audit trail cannot be read")
	}
	if err := json.Unmarshal(data, &chunk); err != nil || len(chunk) == 0 || name != nameOf(chunk) {
		return nil, &messages.Error{Code: messages.CodeCorrupt, Object: kind + name, Message: "an overflow object of the audit trail is damaged", Err: err}
	}
	return chunk, nil
}

func errVanished(key messages.Key) error {
	return corrupt(key, kindLeases+key.String(), "the record is gone, but not its audit trail: somebody deleted it", nil)
}
