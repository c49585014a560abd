package dir_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/localfile"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/dir"
	"github.com/leasehold/leasehold/stores/storetest"
)

func TestQ7_TheErrorNamesTheCause(t *testing.T) {
	small := storetest.SmallDisk(t, "1m,nr_inodes=40", 0)
	s, err := dir.Open(t.Context(), dir.Config{Root: small})
	require.NoError(t, err)
	defer s.Close()
	put := func(key string, size int) error {
		_, err := s.PutIfAbsent(t.Context(), key, make([]byte, size))
		return err
	}
	require.NoError(t, put("a/there", 1))
	requireCause := func(err error, code messages.Code, cause string) {
		t.Helper()
		e := messages.AsError(err)
		require.Equal(t, code, e.Code, "%v", err)
		require.Contains(t, e.Message, cause)
		require.NotContains(t, e.Message, small)
	}
	requireCause(put("a/large", 2<<20), messages.CodeStorage, localfile.DiskFull)
	for free := range 3 { // one for the object, two for the folders
		remove := storetest.FillInodes(t, small, free)
		requireCause(put("b/c/new", 1), messages.CodeStorage, localfile.NoInodes)
		remove()
		_ = os.RemoveAll(filepath.Join(small, "b")) // folders that it has made
	}
	require.NoError(t, put("b/c/new", 1))

	back := storetest.FewDescriptors(t, 0)
	requireCause(put("a/new", 1), messages.CodeUnavailable, localfile.NoDescriptors)
	_, _, err = s.Get(t.Context(), "a/there", 1)
	requireCause(err, messages.CodeUnavailable, localfile.NoDescriptors)
	_, err = s.List(t.Context(), "a/")
	requireCause(err, messages.CodeUnavailable, localfile.NoDescriptors)
	_, err = dir.Open(t.Context(), dir.Config{Root: filepath.Join(small, "other")})
	requireCause(err, messages.CodeUnavailable, localfile.NoDescriptors)
	back()
	require.NoError(t, put("a/new", 1))
}

func TestQ7_ARootThatIsTooLongCreatesNothing(t *testing.T) {
	for name, below := range map[string]string{
		"a name": strings.Repeat("n", 256),
		"all":    strings.TrimPrefix(strings.Repeat("/"+strings.Repeat("n", 199), 16), "/"),
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			_, err := dir.Open(t.Context(), dir.Config{Root: filepath.Join(folder, "made", below)})
			require.ErrorIs(t, err, messages.ErrInvalidArgument)
			require.ErrorContains(t, err, "too long")
			require.NoDirExists(t, filepath.Join(folder, "made"))
		})
	}
}
