package actors

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
)

// An open that has ended may still be preparing when the next one serves: it must not take the files of that one away.
func TestS8_PreparingSetsOnlyEarlierOwnershipsAside(t *testing.T) {
	n := &Node{cfg: Config{StateRoot: t.TempDir(), Now: time.Now}}
	key, err := messages.NewKey("acme", "t-3129611eac9be1d5994a2b216b06ed27")
	require.NoError(t, err)
	for _, epoch := range []uint64{4, 6} {
		require.NoError(t, os.MkdirAll(filepath.Dir(n.localFile(key, epoch)), 0o700))
		require.NoError(t, os.WriteFile(n.localFile(key, epoch), nil, 0o600))
		require.NoError(t, n.noteSaved(key, epoch, ""))
	}
	moved, err := n.prepareLocal(key, 5)
	require.NoError(t, err)
	require.True(t, moved)
	require.NoFileExists(t, n.localFile(key, 4))
	require.FileExists(t, filepath.Join(n.tenantRoot(key), asideFolder, epochFolder(4), ledgerFile))
	require.FileExists(t, n.localFile(key, 6))
}
