package snapshotactor

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/storetest"
)

func TestS2_ANewOwnerRestoresTheNewestSnapshotAndPinsIt(t *testing.T) {
	w := newWorld(t)
	a := w.opened(1)
	require.True(t, a.restored.Empty)
	require.Equal(t, []string{"e00000001/base.json"}, w.names())
	for _, words := range []string{"one", "one two", "one two three"} {
		_, err := a.publish(t, words)
		require.NoError(t, err)
	}
	b := w.opened(2)
	require.Equal(t, messages.Position{Epoch: 1, Snapshot: 3}, b.restored.From)
	require.Equal(t, b.restored.From, b.restored.Base.From)
	require.EqualValues(t, 3, b.restored.Events)
	require.EqualValues(t, 3, b.restored.LastSeq)
	require.EqualValues(t, 1, b.restored.Head)
	require.Equal(t, "one two three", wordsIn(t, b.cfg.File))
	var pinned messages.Base
	require.NoError(t, json.Unmarshal(w.get(testKey.BaseName(2)), &pinned))
	require.Equal(t, b.restored.Base, pinned)
}

// The predecessor's upload may land at any moment; none of them lets it into the lineage twice, or
// into a lineage that was already pinned without it.
func TestS2_ALateUploadLandsBeforeListingBetweenListingAndPinOrAfter(t *testing.T) {
	for name, c := range map[string]struct {
		land   func(w *world, late func())
		second string // what epoch 2 restores
	}{
		"before the listing": {func(w *world, late func()) { late() }, "one late"},
		// Before the seal, the plan is made anew, and the upload belongs to the lineage: nobody has
		// restored anything else yet.
		"between listing and seal": {func(w *world, late func()) {
			w.store.AfterNext(storetest.OpList, func(context.Context, storetest.Call, storetest.Result) { late() })
		}, "one late"},
		// The seal is there, so the manifest meets "already there".
		"between seal and pin": {func(w *world, late func()) {
			w.store.Before(storetest.OpPut, func(_ context.Context, call storetest.Call) {
				if call.Key == testKey.BaseName(2) {
					late()
				}
			})
		}, "one"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := w.opened(1)
			_, err := a.publish(t, "one")
			require.NoError(t, err)
			other := w.node(nil)
			other.cfg.Store = w.store.Inner()
			fromAside, err := NewPublisher(other.cfg, a.restored)
			require.NoError(t, err)
			fromAside.published.Store(1)
			c.land(w, func() { _, _ = fromAside.Publish(context.Background(), imageOf(t, "one", "late")) })
			require.Equal(t, c.second, w.holds(2))
			w.store.Clear()
			// After the pin: number 3 or whatever the predecessor still sends changes nothing.
			_, _ = fromAside.Publish(context.Background(), imageOf(t, "one", "late", "later"))
			require.Equal(t, c.second, w.holds(3))
		})
	}
}

func TestS2_WithoutSealsALateUploadStillNeverEntersAPinnedLineage(t *testing.T) {
	w := newWorld(t)
	a := w.opened(1)
	_, err := a.publish(t, "one")
	require.NoError(t, err)
	seals := 0
	for _, name := range w.names() {
		if name == "e00000001/snap-000002.json" {
			seals++
		}
	}
	require.Zero(t, seals)
	b := w.opened(2)
	_, err = b.publish(t, "one two")
	require.NoError(t, err)
	// Objects appear at every number of epoch 1 that is free, as if nothing had been sealed.
	m, err := json.Marshal(messages.Manifest{Kind: messages.KindManifest, Version: 1, Key: testKey.String(), Epoch: 1, Snapshot: 9})
	require.NoError(t, err)
	w.put(testKey.ImageName(1, 9), ledgerOf(t, testKey, "stray"))
	w.put(testKey.ManifestName(1, 9), m)
	require.Equal(t, "one two", w.holds(3))
}

func TestS3_AnEpochThatDiedBeforeItsFirstSnapshotPassesOnItsOwnBase(t *testing.T) {
	w := newWorld(t)
	a := w.opened(1)
	_, err := a.publish(t, "one")
	require.NoError(t, err)
	for epoch := uint64(2); epoch <= 5; epoch++ {
		n := w.opened(epoch)
		require.Equal(t, messages.Position{Epoch: 1, Snapshot: 1}, n.restored.Base.From, "flattened")
		require.Equal(t, "one", wordsIn(t, n.cfg.File))
	}
	// An epoch that names "the base of epoch 1" instead is understood too.
	w2 := newWorld(t)
	w2.opened(1)
	base, err := json.Marshal(messages.Base{Kind: messages.KindBase, Version: 1, Key: testKey.String(), Epoch: 2, From: messages.Position{Epoch: 1}})
	require.NoError(t, err)
	w2.put(testKey.BaseName(2), base)
	require.Equal(t, "", w2.holds(3))
}

func TestS5_AFailedVerificationNamesTheObjectAndPinsNothing(t *testing.T) {
	image, manifest, base := testKey.ImageName(1, 2), testKey.ManifestName(1, 2), testKey.BaseName(1)
	lie := func(change func(*messages.Manifest)) func(*world) {
		return func(w *world) {
			var m messages.Manifest
			require.NoError(w.t, json.Unmarshal(w.get(manifest), &m))
			change(&m)
			data, err := json.Marshal(m)
			require.NoError(w.t, err)
			w.replace(manifest, data)
		}
	}
	liar := func(change func(*messages.Base)) func(*world) {
		return func(w *world) {
			var b messages.Base
			require.NoError(w.t, json.Unmarshal(w.get(base), &b))
			change(&b)
			data, err := json.Marshal(b)
			require.NoError(w.t, err)
			w.replace(base, data)
		}
	}
	foreign := ledgerOf(t, messages.Key{Org: "acme", Tenant: "t-00000000000000000000000000000000"}, "one", "two")
	rotten := append([]byte{}, ledgerOf(t, testKey, "one", "two")...)
	for i := 4096; i < 4200; i++ {
		rotten[i] ^= 0xff // a page of the table; the header stays
	}
	// promise makes manifest and image agree about bytes that only SQLite can tell are wrong.
	promise := func(data []byte, events int64) func(*world) {
		return func(w *world) {
			made, err := (&Publisher{caller: caller{mustDefaults(w.t, w.node(nil).cfg)}, base: messages.Base{Epoch: 1}}).
				cut(Image{Bytes: data, Events: events, LastSeq: events})
			require.NoError(w.t, err)
			lie(func(m *messages.Manifest) { m.Size, m.SHA256 = made.manifest.Size, made.manifest.SHA256 })(w)
			w.replace(image, data)
		}
	}
	for name, c := range map[string]struct {
		damage func(*world)
		object string
		code   messages.Code
	}{
		"image truncated":     {func(w *world) { d := w.get(image); w.replace(image, d[:len(d)-1]) }, image, messages.CodeCorrupt},
		"image empty":         {func(w *world) { w.replace(image, nil) }, image, messages.CodeCorrupt},
		"image one bit off":   {func(w *world) { d := w.get(image); d[len(d)/2] ^= 1; w.replace(image, d) }, image, messages.CodeCorrupt},
		"image gone":          {func(w *world) { _, _ = w.store.Inner().Delete(context.Background(), image) }, image, messages.CodeCorrupt},
		"image no database":   {promise([]byte("not a database, whatever its hash"), 2), image, messages.CodeCorrupt},
		"image rotten pages":  {promise(rotten, 2), image, messages.CodeCorrupt},
		"image of a stranger": {promise(foreign, 2), image, messages.CodeCorrupt},
		"manifest size":       {lie(func(m *messages.Manifest) { m.Size++ }), image, messages.CodeCorrupt},
		"manifest size below": {lie(func(m *messages.Manifest) { m.Size = -1 }), manifest, messages.CodeCorrupt},
		"manifest hash":       {lie(func(m *messages.Manifest) { m.SHA256 = hash0 }), image, messages.CodeCorrupt},
		"manifest no hash":    {lie(func(m *messages.Manifest) { m.SHA256 = "" }), manifest, messages.CodeCorrupt},
		"manifest events":     {lie(func(m *messages.Manifest) { m.Events++ }), manifest, messages.CodeCorrupt},
		"manifest last seq":   {lie(func(m *messages.Manifest) { m.LastSeq++ }), manifest, messages.CodeCorrupt},
		"manifest epoch":      {lie(func(m *messages.Manifest) { m.Epoch = 2 }), manifest, messages.CodeCorrupt},
		"manifest snapshot":   {lie(func(m *messages.Manifest) { m.Snapshot = 1 }), manifest, messages.CodeCorrupt},
		"manifest key":        {lie(func(m *messages.Manifest) { m.Key = "acme/other" }), manifest, messages.CodeCorrupt},
		"manifest kind":       {lie(func(m *messages.Manifest) { m.Kind = messages.KindBase }), manifest, messages.CodeCorrupt},
		"manifest version 0":  {lie(func(m *messages.Manifest) { m.Version = 0 }), manifest, messages.CodeCorrupt},
		"manifest base":       {lie(func(m *messages.Manifest) { m.Base = messages.Position{Snapshot: 7} }), manifest, messages.CodeCorrupt},
		"manifest garbage":    {func(w *world) { w.replace(manifest, []byte("{")) }, manifest, messages.CodeCorrupt},
		"manifest a bad seal": {func(w *world) { w.replace(manifest, []byte(`{"kind":"seal"}`)) }, manifest, messages.CodeCorrupt},
		"base garbage":        {func(w *world) { w.replace(base, []byte("null")) }, base, messages.CodeCorrupt},
		"base epoch":          {liar(func(b *messages.Base) { b.Epoch = 7 }), base, messages.CodeCorrupt},
		"base key":            {liar(func(b *messages.Base) { b.Key = "acme/other" }), base, messages.CodeCorrupt},
		"base kind":           {liar(func(b *messages.Base) { b.Kind = messages.KindManifest }), base, messages.CodeCorrupt},
		"base names itself":   {liar(func(b *messages.Base) { b.From = messages.Position{Epoch: 1, Snapshot: 1} }), base, messages.CodeCorrupt},
		// What only a newer version can apply is refused, and not called corrupt.
		"manifest increment": {lie(func(m *messages.Manifest) { m.Increment = 4 }), manifest, messages.CodeInvalidArgument},
		"manifest version 2": {lie(func(m *messages.Manifest) { m.Version = 2 }), manifest, messages.CodeInvalidArgument},
		"a real increment": {func(w *world) { w.put(testKey.IncrementName(1, 1), []byte("LTX1\x00")) }, testKey.IncrementName(1, 1),
			messages.CodeInvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := w.opened(1)
			for _, words := range []string{"one", "one two"} {
				_, err := a.publish(t, words)
				require.NoError(t, err)
			}
			c.damage(w)
			b := w.node(nil)
			err := b.open(2)
			code(t, c.code, err)
			object(t, c.object, err)
			require.NotContains(t, w.names(), "e00000002/base.json", "nothing is pinned before all is verified")
			require.NoFileExists(t, b.cfg.File, "what was not verified has no name")
			require.NoFileExists(t, b.cfg.File+".restore")
		})
	}
}

// A ledger that a newer version has written is refused, and not called corrupt: nobody must delete it.
func TestS5_ALedgerOfANewerVersionIsNotCorrupt(t *testing.T) {
	w := newWorld(t)
	a := w.opened(1)
	_, err := a.publish(t, "one")
	require.NoError(t, err)
	b := w.node(func(c *Config) { c.Verifier = newer{} })
	err = b.open(2)
	code(t, messages.CodeInvalidArgument, err)
	object(t, testKey.ImageName(1, 1), err)
	require.NotContains(t, w.names(), "e00000002/base.json")
}

// newer finds what it cannot read.
type newer struct{}

func (newer) Verify(context.Context, string, messages.Key) (events, lastSeq int64, err error) {
	return 0, 0, &messages.Error{Code: messages.CodeInvalidArgument, Message: "a newer version is needed"}
}

const hash0 = "0000000000000000000000000000000000000000000000000000000000000000"

func mustDefaults(t testing.TB, cfg Config) Config {
	cfg, err := cfg.withDefaults()
	require.NoError(t, err)
	return cfg
}

func TestS8_LocalFilesOfAnEarlierOwnershipAreNeverServed(t *testing.T) {
	w := newWorld(t)
	n := w.node(nil)
	for _, suffix := range []string{"", "-wal", "-shm", "-journal", ".restore", ".restore-wal"} {
		require.NoError(t, os.WriteFile(n.cfg.File+suffix, []byte("left over"), 0o600))
	}
	require.NoError(t, n.open(1))
	left, err := os.ReadDir(w.dir)
	require.NoError(t, err)
	require.Empty(t, left)
	_, err = n.publish(t, "one")
	require.NoError(t, err)
	n2 := w.node(nil)
	n2.cfg.File = n.cfg.File
	require.NoError(t, os.WriteFile(n.cfg.File, ledgerOf(t, testKey, "stale", "stale"), 0o600))
	require.NoError(t, os.WriteFile(n.cfg.File+"-wal", []byte("left over"), 0o600))
	require.NoError(t, n2.open(2))
	require.Equal(t, "one", wordsIn(t, n2.cfg.File))
	left, err = os.ReadDir(w.dir)
	require.NoError(t, err)
	require.Len(t, left, 1, "%v", left)
}

func TestABaseAtOrAboveTheGrantedEpochIsLineageAhead(t *testing.T) {
	w := newWorld(t)
	w.opened(1)
	w.opened(3)
	for _, epoch := range []uint64{1, 2, 3} {
		code(t, messages.CodeLineageAhead, w.node(nil).open(epoch))
	}
	require.Equal(t, "", w.holds(4))
}

func TestS12_SealsMeetAPausedPredecessor(t *testing.T) {
	w := newWorld(t)
	a := w.opened(1)
	_, err := a.publish(t, "one")
	require.NoError(t, err)
	// Epoch 2 was granted to somebody who never came to pin it; it wakes up later than epoch 3.
	late := w.node(nil)
	reached, resume := w.store.GateNext(storetest.OpPut)
	pinned := make(chan error, 1)
	go func() { pinned <- late.open(2) }()
	<-reached // its first put is a seal of epoch 1
	require.Equal(t, "one", w.holds(3))
	require.Equal(t, []string{"e00000001/base.json", "e00000001/inc-000001.ltx", "e00000001/snap-000001.db", "e00000001/snap-000001.json",
		"e00000001/snap-000002.json", "e00000002/base.json", "e00000003/base.json"}, w.names())
	resume()
	code(t, messages.CodeLineageAhead, <-pinned)
	// The paused holder of epoch 1 knows nothing, and its clock says that it may go on.
	_, err = a.publish(t, "one two")
	code(t, messages.CodeFenced, err)
	require.Equal(t, messages.ReasonSlotTaken, messages.AsError(err).Reason)
	require.Equal(t, messages.ReasonSlotTaken, a.fence.closedFor())
	_, err = a.publish(t, "one two")
	code(t, messages.CodeFenced, err)
	require.Equal(t, "one", w.holds(4))
}

func TestS12_ThereIsSomethingToSealWithoutAHeadToo(t *testing.T) {
	w := newWorld(t)
	require.Equal(t, "", w.holds(4))
	require.Equal(t, []string{"e00000001/base.json", "e00000002/base.json", "e00000003/base.json", "e00000004/base.json"}, w.names())
	for epoch := uint64(1); epoch <= 3; epoch++ {
		code(t, messages.CodeLineageAhead, w.node(nil).open(epoch))
	}
	w = newWorld(t)
	n := w.node(nil)
	require.NoError(t, n.openAt(Grant{Epoch: 4, Floor: 2}))
	require.Equal(t, []string{"e00000003/base.json", "e00000004/base.json"}, w.names(), "nothing at or below the floor counts")
}

func TestOpenRefusesWhatCanNeverWork(t *testing.T) {
	w := newWorld(t)
	for name, change := range map[string]func(*Config){
		"store":    func(c *Config) { c.Store = nil },
		"owner":    func(c *Config) { c.Owner = "" },
		"verifier": func(c *Config) { c.Verifier = nil },
		"file":     func(c *Config) { c.File = "" },
		"timeout":  func(c *Config) { c.CallTimeout = -1 },
	} {
		err := w.node(change).open(1)
		require.Equal(t, messages.CodeInvalidArgument, messages.CodeOf(err), name)
	}
	code(t, messages.CodeInvalidID, w.node(func(c *Config) { c.Key.Org = "../x" }).open(1))
	code(t, messages.CodeInvalidArgument, w.node(nil).open(0))
	code(t, messages.CodeInvalidArgument, w.node(nil).openAt(Grant{Epoch: 3, Floor: 3}))
	code(t, messages.CodeStorage, func() error {
		a := w.opened(1)
		_, err := a.publish(t, "one")
		require.NoError(t, err)
		return w.node(func(c *Config) { c.File = c.File + "/no/such/folder.db" }).open(2)
	}())
	require.Empty(t, func() []string {
		var out []string
		for _, name := range w.names() {
			if name == "e00000002/base.json" {
				out = append(out, name)
			}
		}
		return out
	}())
}

// What will be done with the restored file is tried before anything is published.
func TestAnOpenPublishesNothingBeforeItsRehearsal(t *testing.T) {
	for _, restored := range []bool{false, true} {
		w := newWorld(t)
		epoch := uint64(1)
		if restored {
			n := w.opened(1)
			_, err := n.publish(t, "kept")
			require.NoError(t, err)
			epoch = 2
		}
		before := w.names()
		var fails error = &messages.Error{Code: messages.CodeSQL, Message: "no"}
		file, prepared := "", 0
		n := w.node(func(c *Config) {
			file = c.File
			c.Prepare = func(context.Context) error { prepared++; return nil }
			c.Rehearse = func(context.Context) error {
				_, err := os.Stat(file)
				require.Equal(t, restored, err == nil, "%v", err)
				require.Equal(t, before, w.names())
				return fails
			}
		})
		grant := Grant{Epoch: epoch, Marked: restored}
		code(t, messages.CodeSQL, n.openAt(grant))
		require.Equal(t, before, w.names())
		fails = nil
		require.NoError(t, n.openAt(grant))
		require.Equal(t, 2, prepared)
	}
}

func TestAnOpenThatHasEndedMakesNoRoomForItself(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(context.Background())
	prepared := false
	n := w.node(func(c *Config) {
		c.Prepare = func(context.Context) error { prepared = true; return nil }
		c.Store = endsAfterList{c.Store, cancel}
	})
	_, err := Open(ctx, n.cfg, Grant{Epoch: 1})
	require.ErrorIs(t, err, messages.ErrCanceled)
	require.False(t, prepared)
}

// endsAfterList is a store whose caller gives up while it lists.
type endsAfterList struct {
	Store
	end func()
}

func (s endsAfterList) List(ctx context.Context, prefix string) ([]string, error) {
	defer s.end()
	return s.Store.List(ctx, prefix)
}
