package natsserver_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/powercut"
	"github.com/leasehold/leasehold/stores/nats/natsserver"
)

// Q6: a server that comes back after a power cut has its name, however deep its new folder is; it is not kept by halves before.
func TestQ6_TheNameOfAServerSurvivesAPowerCut(t *testing.T) {
	folder := t.TempDir()
	const server = "var/lib/nats"
	rec := powercut.RecordSelf(t, keepNameEnv+"="+filepath.Join(folder, server), folder)
	all := rec.Syncs()
	kept := func(syncs []powercut.Sync) string {
		after := t.TempDir()
		require.NoError(t, rec.Write(syncs, after))
		name, err := natsserver.KeptName(filepath.Join(after, server), "second")
		require.NoError(t, err)
		return name
	}
	require.Equal(t, "first", kept(all))
	for n := range len(all) {
		require.Contains(t, []string{"first", "second"}, kept(all[:n]))
	}
	for _, s := range all {
		left := slices.DeleteFunc(slices.Clone(all), func(other powercut.Sync) bool { return other.Path == s.Path })
		after := t.TempDir()
		require.NoError(t, rec.Write(left, after))
		name, err := natsserver.KeptName(filepath.Join(after, server), "second")
		require.False(t, err == nil && name == "first", "nothing is lost without the sync of %s", s.Path)
	}
	require.Len(t, all, 5, "the file, its folder, and the three above")
}
