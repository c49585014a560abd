package snapshotactor

import (
	"context"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/storetest"
)

func TestLineageReportsWhatIsLive(t *testing.T) {
	w := newWorld(t)
	w.history3()
	w.put(testKey.Prefix()+"floor.json", []byte("{}"))
	w.opened(5) // epoch 4 was never pinned
	report, err := Lineage(context.Background(), w.store, testKey, 0)
	require.NoError(t, err)
	require.Equal(t, messages.Position{Epoch: 3, Snapshot: 3}, report.Newest)
	require.Equal(t, []string{testKey.Prefix() + "floor.json"}, report.Strays)
	require.Empty(t, report.Problem)
	require.Len(t, report.Epochs, 5)
	for i, e := range report.Epochs {
		require.EqualValues(t, i+1, e.Epoch)
		require.Equal(t, e.Epoch != 4, e.Live)
		require.Equal(t, e.Epoch == 4, e.Sealed)
		require.Equal(t, e.Epoch != 4, e.Base != nil)
		require.Empty(t, e.Problems)
	}
	second := report.Epochs[1]
	require.Equal(t, messages.Position{Epoch: 1, Snapshot: 2}, second.Base.From)
	require.Equal(t, []uint64{1}, second.Increments)
	require.Len(t, second.Snapshots, 3)
	require.True(t, second.Snapshots[1].Live)
	require.EqualValues(t, 2, second.Snapshots[1].Manifest.Events)
	require.Equal(t, SnapshotReport{Snapshot: 3, Sealed: true, Image: true}, second.Snapshots[2], "never finished, and sealed")
	require.Empty(t, report.Epochs[4].Snapshots)
	// After a forget, nothing at or below the floor is live.
	report, err = Lineage(context.Background(), w.store, testKey, 3)
	require.NoError(t, err)
	require.False(t, report.Epochs[2].Live)
	_, err = json.Marshal(report)
	require.NoError(t, err)
}

func TestLineageReportsDamage(t *testing.T) {
	w := newWorld(t)
	w.history3()
	w.replace(testKey.BaseName(2), []byte("{"))
	w.replace(testKey.ManifestName(1, 1), []byte("{}"))
	report, err := Lineage(context.Background(), w.store, testKey, 0)
	require.NoError(t, err)
	require.Contains(t, report.Problem, testKey.BaseName(2))
	require.Len(t, report.Epochs[0].Problems, 1)
	require.Len(t, report.Epochs[1].Problems, 1)
	report, err = Lineage(context.Background(), w.store, testKey, 3)
	require.NoError(t, err)
	require.Empty(t, report.Problem)
	w.replace(testKey.BaseName(3), []byte("{"))
	report, err = Lineage(context.Background(), w.store, testKey, 3)
	require.NoError(t, err)
	require.Empty(t, report.Problem, "what is forgotten is no part of the lineage, and cannot damage it")
	_, err = Lineage(context.Background(), w.store, messages.Key{}, 0)
	code(t, messages.CodeInvalidID, err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = Lineage(ctx, w.store, testKey, 0)
	code(t, messages.CodeUnavailable, err)
}

func TestVerifyAllFindsEveryDamagedObject(t *testing.T) {
	w := newWorld(t)
	w.history3()
	var last, total int64
	progress := func(done, all int64) { require.Greater(t, done, last); last, total = done, all }
	findings, err := VerifyAll(context.Background(), w.store, testKey, sqliteVerifier{}, t.TempDir(), progress)
	require.NoError(t, err)
	require.Empty(t, findings)
	require.Equal(t, total, last)
	require.Positive(t, total)
	w.replace(testKey.ImageName(1, 1), []byte("rotten"))
	w.replace(testKey.ManifestName(2, 1), []byte("{"))
	w.replace(testKey.BaseName(1), []byte("{"))
	_, err = w.store.Delete(context.Background(), testKey.ImageName(3, 3))
	require.NoError(t, err)
	folder := t.TempDir()
	findings, err = VerifyAll(context.Background(), w.store, testKey, sqliteVerifier{}, folder, nil)
	require.NoError(t, err)
	var found []string
	for _, f := range findings {
		found = append(found, f.Object)
		require.Equal(t, messages.CodeCorrupt, f.Err.Code)
	}
	require.ElementsMatch(t, []string{testKey.ImageName(1, 1), testKey.ManifestName(2, 1), testKey.BaseName(1), testKey.ImageName(3, 3)}, found)
	left, err := filepath.Glob(folder + "/*")
	require.NoError(t, err)
	require.Empty(t, left)
	w.store.Every(storetest.OpGet, storetest.Fail(nil))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = VerifyAll(ctx, w.store, testKey, sqliteVerifier{}, folder, nil)
	code(t, messages.CodeUnavailable, err)
	require.ErrorIs(t, err, context.Canceled)
}

func TestFetchRestoresAnySnapshotIntoANewFile(t *testing.T) {
	w := newWorld(t)
	w.history3()
	fetch := func(at *messages.Position, floor uint64, file string) (messages.Manifest, error) {
		return Fetch(context.Background(), w.store, sqliteVerifier{}, testKey, at, floor, file)
	}
	before := w.names()
	file := filepath.Join(t.TempDir(), "newest.db")
	m, err := fetch(nil, 0, file)
	require.NoError(t, err)
	require.EqualValues(t, 3, m.Epoch)
	require.Equal(t, "e3 s3", wordsIn(t, file))
	_, err = fetch(nil, 0, file)
	code(t, messages.CodeInvalidArgument, err)
	old := filepath.Join(t.TempDir(), "old.db")
	_, err = fetch(&messages.Position{Epoch: 1, Snapshot: 2}, 0, old)
	require.NoError(t, err)
	require.Equal(t, "e1 s2", wordsIn(t, old))
	none := filepath.Join(t.TempDir(), "none.db")
	for _, at := range []messages.Position{{Epoch: 9, Snapshot: 1}, {Epoch: 1, Snapshot: 9}, {Epoch: 1}, {Epoch: 1, Snapshot: 3}, {}} {
		_, err = fetch(&at, 0, none)
		code(t, messages.CodeNotFound, err)
	}
	_, err = fetch(&messages.Position{Epoch: 1, Snapshot: 2}, 1, none)
	code(t, messages.CodeNotFound, err)
	_, err = fetch(nil, 3, none)
	code(t, messages.CodeNotFound, err)
	_, err = fetch(&messages.Position{Epoch: 1, Snapshot: 2, Increment: 1}, 0, none)
	code(t, messages.CodeInvalidArgument, err)
	w.replace(testKey.ImageName(1, 2), []byte("rotten"))
	_, err = fetch(&messages.Position{Epoch: 1, Snapshot: 2}, 0, none)
	code(t, messages.CodeCorrupt, err)
	require.NoFileExists(t, none)
	require.Equal(t, before, w.names(), "the store is only read")
}
