package sqlite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/localfile"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/sqlite"
	"github.com/leasehold/leasehold/stores/storetest"
)

// Whatever of the files of the store cannot be opened any more: its folder, the file, that of its users, or what SQLite opens.
func TestQ7_TheErrorNamesTheCause(t *testing.T) {
	for name, take := range map[string]struct {
		from  func(t *testing.T, folder string, free int) (back func())
		cause string
		least int // refusals
	}{
		"descriptors": {func(t *testing.T, _ string, free int) func() { return storetest.FewDescriptors(t, free) }, localfile.NoDescriptors, 4},
		"inodes":      {func(t *testing.T, folder string, free int) func() { return storetest.FillInodes(t, folder, free) }, localfile.NoInodes, 4},
	} {
		t.Run(name, func(t *testing.T) {
			folder := storetest.SmallDisk(t, "8m,nr_inodes=60", 0)
			refused := 0
			for free := 0; ; free++ {
				path := filepath.Join(folder, fmt.Sprint(free), "leases.db")
				back := take.from(t, folder, free)
				s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
				back()
				if err == nil {
					require.NoError(t, s.Close())
					break
				}
				require.ErrorIs(t, err, messages.ErrStorage, "%d left", free)
				require.Contains(t, messages.AsError(err).Message, take.cause, "%d left", free)
				require.NoError(t, os.RemoveAll(filepath.Dir(path)))
				refused++
			}
			require.GreaterOrEqual(t, refused, take.least)
			t.Logf("%d refusals name the cause", refused)
		})
	}
}

// A disk that fills up under an open store.
func TestQ7_ALeaseFileOnAFullDiskNamesTheCause(t *testing.T) {
	folder := storetest.SmallDisk(t, "1m", 0)
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(folder, "leases.db")})
	require.NoError(t, err)
	defer s.Close()
	for n := 0; err == nil; n++ {
		key := messages.Key{Org: "acme", Tenant: messages.TenantID(fmt.Sprintf("t-%032x", n))}
		_, err = s.Acquire(t.Context(), key, "owner", time.Minute)
	}
	require.ErrorIs(t, err, messages.ErrStorage)
	require.Equal(t, "the lease file cannot be used: "+localfile.DiskFull, messages.AsError(err).Message)
}

func TestQ7_ALeaseFileWithAPathThatIsTooLongCreatesNothing(t *testing.T) {
	folder := t.TempDir()
	for _, below := range []string{strings.Repeat("n", 248), filepath.Join(strings.Repeat("f", 200), strings.Repeat("g", 200), strings.Repeat("h", 100))} {
		_, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(folder, "made", below)})
		require.ErrorIs(t, err, messages.ErrInvalidArgument)
		require.ErrorContains(t, err, "the lease file is too long")
		require.NoDirExists(t, filepath.Join(folder, "made"))
	}
}
