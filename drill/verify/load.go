package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/leasehold/leasehold/drill/engine"
	"github.com/leasehold/leasehold/drill/history"
	"github.com/leasehold/leasehold/drill/record"
	"github.com/leasehold/leasehold/drill/replica"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/sqlite"
)

// InfoName is the file that says what a run was to do.
const InfoName = "drill.json"

// Info is what a run was to do.
type Info struct {
	Seed     uint64   `json:"seed"`
	Replicas int      `json:"replicas"`
	Tenants  []string `json:"tenants"`
	Break    string   `json:"break,omitempty"`
	// Leases and Durable are the kinds of the stores.
	Leases   engine.Kind `json:"leases"`
	Durable  engine.Kind `json:"durable"`
	Schedule []string    `json:"schedule"`
	Begun    time.Time   `json:"begun"`
}

// run is everything that a run has left behind.
type run struct {
	info  Info
	keys  []messages.Key
	lines []record.Line
	h     history.History
	// frozen holds when a process was stopped and when it was woken, ns.
	frozen map[string][][2]int64
	owners map[string]string // owner id by process
	// orphans are answers to requests that were never recorded.
	orphans []record.Line
}

func load(ctx context.Context, root string) (*run, error) {
	data, err := os.ReadFile(filepath.Join(root, InfoName))
	if err != nil {
		return nil, fmt.Errorf("not the folder of a drill: %w", err)
	}
	r := &run{frozen: map[string][][2]int64{}, owners: map[string]string{}}
	if err := json.Unmarshal(data, &r.info); err != nil {
		return nil, fmt.Errorf("%s: %w", InfoName, err)
	}
	for _, s := range r.info.Tenants {
		key, err := messages.ParseKey(s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", InfoName, err)
		}
		r.keys = append(r.keys, key)
	}
	if r.lines, err = record.ReadDir(replica.RecordDir(root)); err != nil {
		return nil, err
	}
	r.h = history.History{Slack: r.info.Leases.Slack(), Archive: true, Trails: map[messages.Key][]messages.LeaseEntry{},
		Objects: map[string]history.Object{}, Final: map[messages.Key]history.State{}}
	trails := r.trails
	if r.info.Leases.HasServer() {
		trails = r.exportedTrails
	}
	if err := trails(ctx, root); err != nil {
		return nil, err
	}
	// What was deleted first, so that what is there counts where both are.
	for _, folder := range []string{replica.ArchiveDir(root), replica.DurableDir(root)} {
		names, err := r.objects(folder)
		if err != nil {
			return nil, err
		}
		r.h.Left = names
	}
	r.fill()
	return r, nil
}

// trails reads the audit trails from a copy of the lease file: opening one writes to it.
func (r *run) trails(ctx context.Context, root string) (err error) {
	temp, err := os.MkdirTemp("", "leasehold-drill-")
	if err != nil {
		return fmt.Errorf("copy the lease file: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(replica.LeasePath(root) + suffix)
		if suffix != "" && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("copy the lease file: %w", err)
		}
		if err := os.WriteFile(replica.LeasePath(temp)+suffix, data, 0o600); err != nil {
			return fmt.Errorf("copy the lease file: %w", err)
		}
	}
	leases, err := sqlite.Open(ctx, sqlite.Config{Path: replica.LeasePath(temp)})
	if err != nil {
		return fmt.Errorf("open the lease file: %w", err)
	}
	defer func() { err = errors.Join(err, leases.Close()) }()
	for _, key := range r.keys {
		if r.h.Trails[key], err = leases.History(ctx, key); err != nil {
			return fmt.Errorf("the audit trail of %s: %w", key, err)
		}
	}
	return nil
}

// objects adds the objects of a folder, and returns their names.
func (r *run) objects(folder string) (names []string, err error) {
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			if path == folder && errors.Is(err, fs.ErrNotExist) {
				return nil // nothing was deleted
			}
			return err
		}
		rel, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		if d.IsDir() {
			return nil
		}
		if _, err := messages.ParseObject(name); err != nil {
			return nil // a temporary file of the store
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		names = append(names, name)
		r.h.Objects[name] = history.Object{Data: data}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the objects: %w", err)
	}
	return names, nil
}

// fill turns the lines of all records into a history.
func (r *run) fill() {
	for _, l := range r.lines {
		switch {
		case l.Kind == record.Started:
			r.owners[l.Proc] = l.Owner
		case l.Kind == record.Action && l.Op == "stop":
			r.frozen[l.Target] = append(r.frozen[l.Target], [2]int64{l.At, 1<<63 - 1})
		case l.Kind == record.Action && l.Op == "cont":
			if spans := r.frozen[l.Target]; len(spans) > 0 {
				spans[len(spans)-1][1] = l.At
			}
		}
	}
	asked := r.intents()
	rows := map[messages.Key][]history.Row{}
	for _, l := range r.lines {
		key, err := messages.ParseKey(l.Key)
		if err != nil {
			key = messages.Key{}
		}
		switch l.Kind {
		case record.Ack, record.Refused:
			if l.Write == "" {
				continue // an open that was refused
			}
			i, ok := asked[attempt{l.Write, l.Attempt}]
			if !ok {
				r.orphans = append(r.orphans, l)
				continue
			}
			w := &r.h.Writes[i]
			w.Epoch, w.Answered, w.Seq, w.Duplicate, w.Code = l.Epoch, r.answered(l), l.Seq, l.Duplicate, l.Code
			switch {
			case l.Kind == record.Ack:
				w.Outcome = history.Acked
			case l.Code == messages.CodeUnknownOutcome:
				w.Outcome = history.Unknown
			default:
				w.Outcome = history.Refused
			}
		case record.Lifecycle:
			if l.Life != nil {
				r.h.Lifecycle = append(r.h.Lifecycle, *l.Life)
			}
		case record.PutEnded:
			if o, ok := r.h.Objects[l.Object]; ok && l.Created {
				o.By, o.At = r.owners[l.Proc], l.Wall
				r.h.Objects[l.Object] = o
			}
		case record.Row:
			rows[key] = append(rows[key], history.Row{Seq: l.Seq, Tenant: messages.TenantID(l.Tenant), ID: l.Write, IdemKey: l.Idem})
		case record.TookOver:
			if l.Code == "" {
				r.h.Final[key] = history.State{Epoch: l.Epoch, Rows: rows[key]}
			}
		}
	}
	slices.SortStableFunc(r.h.Lifecycle, func(a, b messages.Lifecycle) int { return a.At.Compare(b.At) })
}

// attempt names one request.
type attempt struct {
	write string
	n     int
}

// intents adds every write that was asked for, and returns where each request is.
func (r *run) intents() map[attempt]int {
	asked := map[attempt]int{}
	for _, l := range r.lines {
		key, err := messages.ParseKey(l.Key)
		if l.Kind != record.Intent || err != nil {
			continue
		}
		asked[attempt{l.Write, l.Attempt}] = len(r.h.Writes)
		r.h.Writes = append(r.h.Writes, history.Write{Key: key, ID: l.Write, IdemKey: l.Idem, Attempt: l.Attempt, Owner: r.owners[l.Proc], Sent: l.Wall})
	}
	return asked
}

// answered returns when an answer was given, as far as that is certain. A process that was stopped between
// the answer and the record of it could only record it when it was woken: then it counts from when it was stopped.
// A request that was sent before a process was woken was sent before it was stopped, also if that took
// effect a little later than the drill asked for it.
func (r *run) answered(l record.Line) time.Time {
	for _, span := range r.frozen[l.Proc] {
		if stopped, woken := span[0], span[1]; l.Since < woken && l.At >= woken {
			return l.Wall.Add(time.Duration(max(stopped, l.Since) - l.At))
		}
	}
	return l.Wall
}
