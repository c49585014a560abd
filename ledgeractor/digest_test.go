package ledgeractor_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

// afterCrash returns a copy of a ledger's files as they are at this moment, its log included.
func (l *ledger) afterCrash() string {
	l.t.Helper()
	folder := l.t.TempDir()
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(l.path + suffix)
		require.NoError(l.t, err)
		require.NoError(l.t, os.WriteFile(filepath.Join(folder, "ledger.db"+suffix), data, 0o600))
	}
	return filepath.Join(folder, "ledger.db")
}

func sum(data []byte) string {
	hash := sha256.Sum256(data)
	return hex.EncodeToString(hash[:])
}

// TestK5_ADigestTellsWhetherAnImageHoldsEverything: whatever became of the file since, also of a crash.
func TestK5_ADigestTellsWhetherAnImageHoldsEverything(t *testing.T) {
	digest := func(path string) string {
		t.Helper()
		d, err := ledgeractor.Digest(t.Context(), path, testKey)
		require.NoError(t, err)
		again, err := ledgeractor.Digest(t.Context(), path, testKey)
		require.NoError(t, err)
		require.Equal(t, d, again, "looking changes nothing")
		return d
	}
	l := start(t)
	for range 50 {
		l.append("saved")
	}
	image, err := l.Cut(t.Context())
	require.NoError(t, err)
	want := sum(image.Bytes)
	restored := write(t, image.Bytes)
	require.Equal(t, want, digest(restored), "the image itself, restored and never written")
	require.Equal(t, want, digest(l.afterCrash()))
	next := start(t, func(c *ledgeractor.Config) { c.Path = restored })
	require.Zero(t, next.Version())
	require.Equal(t, want, digest(next.afterCrash()), "opened, and never written")
	next.append("not saved")
	require.NotEqual(t, want, digest(next.afterCrash()))
	l.append("not saved")
	require.NotEqual(t, want, digest(l.afterCrash()))
	again, err := l.Cut(t.Context())
	require.NoError(t, err)
	l.stop()
	require.NoFileExists(t, l.path+"-wal")
	require.Equal(t, sum(again.Bytes), digest(l.path), "closed, with its log merged into it")
	left, err := filepath.Glob(l.path + "*.cut")
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestADigestOfWhatIsNoLedger(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	_, err := ledgeractor.Digest(t.Context(), path, testKey)
	requireCode(t, err, messages.CodeStorage)
	require.NoError(t, os.WriteFile(path, []byte("half an image"), 0o600))
	_, err = ledgeractor.Digest(t.Context(), path, testKey)
	requireCode(t, err, messages.CodeCorrupt)
}
