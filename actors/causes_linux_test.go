package actors_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/internal/localfile"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/storetest"
)

// Whichever step of an open finds no inode: the folders, the files of the ledger, or those that SQLite makes.
func TestQ7_ANodeWithoutInodesSaysSo(t *testing.T) {
	root := storetest.SmallDisk(t, "8m,nr_inodes=60", 0)
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start(func(c *actors.Config) { c.StateRoot = root })
		requireCause := func(err error) {
			t.Helper()
			require.ErrorIs(t, err, messages.ErrStorage)
			require.Contains(t, messages.AsError(err).Message, localfile.NoInodes)
			require.NotContains(t, messages.AsError(err).Message, root)
		}
		for free := range 6 { // with six, the open succeeds
			time.Sleep(2 * time.Second) // so that the disk is looked at after the failure
			require.NoError(t, n.Full())
			remove := storetest.FillInodes(t, root, free)
			id := tenantID(t, strings.Repeat("u", free+1))
			_, err := tryOpen(t.Context(), n, id)
			requireCause(err)
			synctestWait()
			requireCause(n.Full())
			time.Sleep(10 * time.Second)
			requireCause(n.Full())
			remove()
			time.Sleep(2 * time.Second)
			require.NoError(t, n.Full(), "it goes on by itself")
		}
		open(t, n, "another")
	})
}

// Every step of an open and a snapshot, and a query, name the cause.
func TestQ7_ANodeWithoutDescriptorsSaysSo(t *testing.T) {
	root := t.TempDir()
	n, err := actors.Start(t.Context(), actors.Config{StateRoot: root, DurableTimeout: time.Second, SnapshotEvery: time.Hour, MaxUnsaved: 2 * time.Hour})
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Shutdown(t.Context())) }()
	tenant := open(t, n, "first")
	appendKind(t, tenant, "x")
	requireCause := func(err error, free int) {
		t.Helper()
		require.Error(t, err)
		require.Contains(t, messages.AsError(err).Message, localfile.NoDescriptors, "%d left: %v", free, err)
		require.NotContains(t, messages.AsError(err).Message, root)
	}

	back := storetest.FewDescriptors(t, 0)
	_, err = tenant.Snapshot(within(t, 5*time.Second))
	back()
	requireCause(err, 0)
	_, err = tenant.Snapshot(t.Context())
	require.NoError(t, err)

	refused := 0
	for free := 0; ; free++ {
		require.Less(t, free, 40)
		back := storetest.FewDescriptors(t, free)
		_, err := tryOpen(within(t, 5*time.Second), n, tenantID(t, strings.Repeat("u", free+1)))
		back()
		if err == nil {
			break
		}
		requireCause(err, free)
		refused++
	}
	require.Positive(t, refused)
	t.Logf("%d refused opens name the cause", refused)
}

// A state root in which SQLite could not open every ledger is refused before there is anything in it, and the longest that is taken
// holds the ledgers of the longest ids.
func TestQ7_AStateRootThatIsTooLong(t *testing.T) {
	folder := t.TempDir()
	rootOf := func(bytes int) string {
		root := filepath.Join(folder, "made")
		for len(root)+102 < bytes {
			root = filepath.Join(root, strings.Repeat("r", 100))
		}
		return filepath.Join(root, strings.Repeat("r", bytes-len(root)-1))
	}
	const longest = 341
	for _, bytes := range []int{400, longest + 1} {
		_, err := actors.Start(t.Context(), actors.Config{StateRoot: rootOf(bytes)})
		require.ErrorIs(t, err, messages.ErrInvalidArgument)
		require.ErrorContains(t, err, "the path of the state root is too long: it has "+map[int]string{400: "400", longest + 1: "342"}[bytes]+" bytes, and may have 341, so that those of its files have at most 512")
		_, err = actors.LockRoot(rootOf(bytes))
		require.ErrorIs(t, err, messages.ErrInvalidArgument)
		require.NoDirExists(t, filepath.Join(folder, "made"))
	}
	link := filepath.Join(folder, "link")
	require.NoError(t, os.Symlink(rootOf(400), link))
	require.NoError(t, os.MkdirAll(rootOf(400), 0o700))
	_, err := actors.Start(t.Context(), actors.Config{StateRoot: link})
	require.ErrorIs(t, err, messages.ErrInvalidArgument)
	require.NoError(t, os.RemoveAll(filepath.Join(folder, "made")))

	org := messages.OrgID(strings.Repeat("o", 63))
	for range 2 { // the second one restores it, and sets the first one's files aside
		n, err := actors.Start(t.Context(), actors.Config{StateRoot: rootOf(longest), TTL: time.Second})
		require.NoError(t, err)
		tenant, err := n.Tenant(t.Context(), org, tenantID(t, "u"))
		require.NoError(t, err)
		require.NoError(t, tenant.Open(within(t, time.Minute)))
		appendKind(t, tenant, "x")
		_, err = tenant.Snapshot(t.Context())
		require.NoError(t, err)
		appendKind(t, tenant, "unsaved")
		require.NoError(t, n.Abort())
	}
}
