package replica

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/drill/engine"
	"github.com/leasehold/leasehold/drill/record"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
	"github.com/leasehold/leasehold/stores/dir"
	"github.com/leasehold/leasehold/stores/sqlite"
)

var key = messages.Key{Org: "drill", Tenant: "t-0123456789abcdef0123456789abcdef"}

func newRecord(t *testing.T, root string) (w *record.Writer, lines func() []record.Line) {
	path := RecordPath(root, "r1.1")
	w, err := record.Create(path, "r1.1")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	return w, func() []record.Line {
		lines, err := record.ReadFile(path)
		require.NoError(t, err)
		return lines
	}
}

func newDurable(t *testing.T) (s *durable, root string, lines func() []record.Line) {
	root = t.TempDir()
	real, err := dir.Open(t.Context(), dir.Config{Root: DurableDir(root)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, real.Close()) })
	log, lines := newRecord(t, root)
	return &durable{DurableStore: real, dir: root, images: newGate(), manifests: newGate(), log: log, slog: slog.New(slog.DiscardHandler)}, root, lines
}

func TestAnUploadThatWasSentArrivesThoughItsSenderGaveUp(t *testing.T) {
	s, _, lines := newDurable(t)
	require.NoError(t, s.images.hold(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	name := key.ImageName(1, 1)
	_, err := s.PutIfAbsent(ctx, name, []byte("image"))
	require.ErrorIs(t, err, messages.ErrUnavailable)
	_, ok, err := s.Get(t.Context(), name, 1<<30)
	require.NoError(t, err)
	require.False(t, ok)
	require.Equal(t, record.PutBegun, lines()[0].Kind)

	s.images.release()
	require.Eventually(t, func() bool {
		all := lines() // it grows
		last := all[len(all)-1]
		return last.Kind == record.PutEnded && last.Created && last.Object == name
	}, time.Minute, time.Millisecond)
	data, ok, err := s.Get(t.Context(), name, 1<<30)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "image", string(data))
}

func TestAnImageTakesItsTime(t *testing.T) {
	s, _, _ := newDurable(t)
	begun := time.Now()
	created, err := s.PutIfAbsent(t.Context(), key.ImageName(1, 1), []byte("image"))
	require.NoError(t, err)
	require.True(t, created)
	require.GreaterOrEqual(t, time.Since(begun), ImageTakes)
}

func TestSmallObjectsAreRecordedWithWhatTheySay(t *testing.T) {
	s, _, lines := newDurable(t)
	base := messages.Base{Kind: messages.KindBase, Version: 1, Key: key.String(), Epoch: 2, From: messages.Position{Epoch: 1, Snapshot: 3}, Owner: "r1#x"}
	manifest := messages.Manifest{Kind: messages.KindManifest, Version: 1, Key: key.String(), Epoch: 2, Snapshot: 1, LastSeq: 5}
	for name, v := range map[string]any{key.BaseName(2): base, key.ManifestName(2, 1): manifest} {
		data, err := json.Marshal(v)
		require.NoError(t, err)
		created, err := s.PutIfAbsent(t.Context(), name, data)
		require.NoError(t, err)
		require.True(t, created)
	}
	seen := 0
	for _, l := range lines() {
		if l.Kind != record.PutEnded {
			continue
		}
		require.True(t, l.Created)
		switch l.Op {
		case messages.KindBase:
			require.Equal(t, base, *l.Base)
		case messages.KindManifest:
			require.Equal(t, manifest, *l.Manifest)
		}
		seen++
	}
	require.Equal(t, 2, seen)
}

func TestWhatIsDeletedIsArchived(t *testing.T) {
	t.Run("by a link", func(t *testing.T) { testArchive(t, false) })
	t.Run("by a copy", func(t *testing.T) { testArchive(t, true) })
}

func testArchive(t *testing.T, remote bool) {
	s, root, lines := newDurable(t)
	s.remote = remote
	names := []string{key.ImageName(1, 1), key.ImageName(1, 2), key.ImageName(2, 1)}
	for _, name := range names {
		_, err := s.PutIfAbsent(t.Context(), name, []byte(name))
		require.NoError(t, err)
	}
	deleted, err := s.Delete(t.Context(), names[0])
	require.NoError(t, err)
	require.True(t, deleted)
	deleted, err = s.Delete(t.Context(), names[0])
	require.NoError(t, err)
	require.False(t, deleted)
	count, err := s.DeletePrefix(t.Context(), key.EpochPrefix(1))
	require.NoError(t, err)
	require.Equal(t, 1, count)
	_, err = s.DeletePrefix(t.Context(), "")
	require.ErrorIs(t, err, messages.ErrOutOfRange)
	left, err := s.List(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, names[2:], left)
	for _, name := range names[:2] {
		data, err := os.ReadFile(filepath.Join(ArchiveDir(root), filepath.FromSlash(name)))
		require.NoError(t, err)
		require.Equal(t, name, string(data))
	}
	var recorded []string
	for _, l := range lines() {
		if l.Kind == record.Deleted {
			recorded = append(recorded, l.Object)
		}
	}
	require.Equal(t, names[:2], recorded)
	entries, err := os.ReadDir(ArchiveDir(root))
	require.NoError(t, err)
	require.Len(t, entries, 1, "the organization's folder, and no temporary file")
}

func TestLeaseCallsAreHeldAndRecorded(t *testing.T) {
	root := t.TempDir()
	real, err := sqlite.Open(t.Context(), sqlite.Config{Path: LeasePath(root)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, real.Close()) })
	log, lines := newRecord(t, root)
	s := &leases{LeaseStore: real, gate: newGate(), log: log}

	lease, err := s.Acquire(t.Context(), key, "r1#x", TTL)
	require.NoError(t, err)
	require.EqualValues(t, 1, lease.Epoch)
	_, err = s.Acquire(t.Context(), key, "r2#y", TTL)
	require.ErrorIs(t, err, messages.ErrHeld)
	results, err := s.RenewMany(t.Context(), []stores.Renewal{{Key: key, Owner: "r1#x", Epoch: 1, TTL: TTL}, {Key: key, Owner: "r1#x", Epoch: 9, TTL: TTL}})
	require.NoError(t, err)
	require.NoError(t, results[0].Err)
	require.ErrorIs(t, results[1].Err, messages.ErrLost)

	require.NoError(t, s.gate.hold(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.Renew(ctx, key, "r1#x", 1, TTL)
	require.ErrorIs(t, err, messages.ErrUnavailable)
	require.ErrorIs(t, s.Release(ctx, key, "r1#x", 1), messages.ErrUnavailable)
	s.gate.release()
	require.NoError(t, s.Release(t.Context(), key, "r1#x", 1))

	var got []string
	for _, l := range lines() {
		require.Positive(t, l.Since)
		got = append(got, l.Op+" "+string(l.Code))
	}
	require.Equal(t, []string{"acquire ", "renew ", "renew lost", "release "}, got)
}

func TestParse(t *testing.T) {
	stored := engine.Stores{Leases: engine.Store{Kind: engine.SQLite, At: "/d/leases.db"}, Durable: engine.Store{Kind: engine.Dir, At: "/d/durable"}}
	good := Config{Dir: "/d", Node: "r1", Start: 2, Tenants: []string{key.String()}, Writers: 1, Stores: stored, Planted: "no-seal", LeaseStore: StoreNoCompareAndSet}
	text := func(c Config) string {
		data, err := json.Marshal(c)
		require.NoError(t, err)
		return string(data)
	}
	c, err := Parse(text(good))
	require.NoError(t, err)
	require.Equal(t, good, c)
	require.Equal(t, "r1.2", c.Proc())
	for name, change := range map[string]func(*Config){
		"no folder":   func(c *Config) { c.Dir = "" },
		"no node":     func(c *Config) { c.Node = "" },
		"no start":    func(c *Config) { c.Start = 0 },
		"no tenants":  func(c *Config) { c.Tenants = nil },
		"bad tenant":  func(c *Config) { c.Tenants = []string{"drill/../x"} },
		"no writers":  func(c *Config) { c.Writers = 0 },
		"pace":        func(c *Config) { c.Pace = -1 },
		"fault":       func(c *Config) { c.Planted = "no-such-fault" },
		"no stores":   func(c *Config) { c.Stores = engine.Stores{} },
		"no place":    func(c *Config) { c.Stores.Durable.At = "" },
		"no leases":   func(c *Config) { c.Stores.Leases.Kind = engine.Dir },
		"lease store": func(c *Config) { c.LeaseStore = "no-such-store" },
	} {
		t.Run(name, func(t *testing.T) {
			bad := good
			change(&bad)
			_, err := Parse(text(bad))
			require.Error(t, err)
		})
	}
	_, err = Parse("{")
	require.Error(t, err)
}
