package smallfile_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/smallfile"
)

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, size := range []int64{0, 1, smallfile.MaxBytes, smallfile.MaxBytes + 1, 8 << 40} { // the last ones sparse
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		require.NoError(t, os.Truncate(path, size))
		data, err := smallfile.Read(path)
		if size <= smallfile.MaxBytes {
			require.NoError(t, err)
			require.Len(t, data, int(size))
			continue
		}
		require.ErrorIs(t, err, smallfile.ErrTooLarge)
		var named *os.PathError
		require.ErrorAs(t, err, &named)
		require.Equal(t, path, named.Path)
	}
	_, err := smallfile.Read("/dev/zero")
	require.ErrorIs(t, err, smallfile.ErrTooLarge)
	_, err = smallfile.KeyPair("/dev/zero", path)
	require.ErrorIs(t, err, smallfile.ErrTooLarge)
	_, err = smallfile.Read(path + "-none")
	require.ErrorIs(t, err, os.ErrNotExist)
}
