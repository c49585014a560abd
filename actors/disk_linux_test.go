package actors_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/storetest"
)

// fillUp writes until the disk is full, and returns what makes room again.
func fillUp(t *testing.T, folder string) (makeRoom func()) {
	t.Helper()
	path := filepath.Join(folder, "filler")
	require.ErrorIs(t, os.WriteFile(path, make([]byte, 9<<20), 0o600), syscall.ENOSPC)
	return func() { require.NoError(t, os.Remove(path)) }
}

var large = messages.Event{Kind: "large", Payload: []byte(`"` + strings.Repeat("x", 512<<10) + `"`)}

// A node whose disk is full refuses to open a tenant, gives the lease back, takes no further ones, and keeps what it
// has; what could not store something can go elsewhere, though there is no room for a copy of it.
func TestANodeWithAFullDiskTakesNoTenants(t *testing.T) {
	root := storetest.SmallDisk(t, "8m", 0)
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start(func(c *actors.Config) { c.StateRoot, c.SnapshotEvery = root, time.Hour })
		mine := open(t, n, "mine")
		for range 3 {
			_, err := mine.Append(t.Context(), large)
			require.NoError(t, err)
		}
		makeRoom := fillUp(t, root)
		failed := messages.Key{Org: "acme", Tenant: tenantID(t, "failed")}
		_, err := tryOpen(t.Context(), n, failed.Tenant)
		require.ErrorIs(t, err, messages.ErrStorage)
		requireReleased(t, f, failed)
		synctestWait()
		require.NoDirExists(t, filepath.Join(root, "orgs", "acme", "tenants", string(failed.Tenant)), "it takes no room")
		require.ErrorIs(t, n.Full(), messages.ErrStorage)

		refused := messages.Key{Org: "acme", Tenant: tenantID(t, "refused")}
		_, err = tryOpen(t.Context(), n, refused.Tenant)
		require.ErrorIs(t, err, messages.ErrStorage)
		require.Equal(t, refused.String(), messages.AsError(err).Key)
		require.Empty(t, f.grants(refused), "no epoch was used up")

		require.False(t, n.Cramped(mine.Key()))
		for err = nil; err == nil; {
			_, err = mine.Append(t.Context(), large)
		}
		require.ErrorIs(t, err, messages.ErrStorage)
		synctestWait()
		require.True(t, n.Cramped(mine.Key()))
		before := kinds(t, mine)
		require.NoError(t, mine.Handoff(within(t, time.Minute)))
		require.Equal(t, before, kinds(t, open(t, f.start(), "mine")), "nothing acknowledged is lost")

		makeRoom()
		open(t, n, "refused") // at once: the disk is looked at for it
		require.NoError(t, n.Full())
		open(t, n, "failed")
	})
}

// The disk is looked at again although nobody asks for a tenant.
func TestANodeTakesTenantsAgainWhenThereIsRoom(t *testing.T) {
	root := storetest.SmallDisk(t, "8m", 0)
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start(func(c *actors.Config) { c.StateRoot = root })
		makeRoom := fillUp(t, root)
		_, err := tryOpen(t.Context(), n, tenantID(t, "u"))
		require.ErrorIs(t, err, messages.ErrStorage)
		time.Sleep(10 * time.Second)
		require.ErrorIs(t, n.Full(), messages.ErrStorage)
		makeRoom()
		time.Sleep(2 * time.Second)
		require.NoError(t, n.Full())
		require.NoFileExists(t, filepath.Join(root, "disk.probe"))
	})
}

// The disk of the durable store is another one.
func TestAFullDurableStoreDoesNotKeepANodeFromTakingTenants(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start()
		f.durable.Add(func(c storetest.Call) bool { return c.Op == storetest.OpPut }, -1, func(storetest.Call) storetest.Action {
			return storetest.Fail(&messages.Error{Code: messages.CodeStorage, Message: "full"})
		})
		_, err := tryOpen(within(t, time.Minute), n, tenantID(t, "u"))
		require.ErrorIs(t, err, messages.ErrStorage)
		synctestWait()
		require.NoError(t, n.Full())
	})
}

// What is not the disk's fault does not make a node write to it again and again.
func TestOtherFailuresDoNotWearTheDisk(t *testing.T) {
	root := storetest.SmallDisk(t, "8m", 0)
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start(func(c *actors.Config) { c.StateRoot = root })
		time.Sleep(time.Second)
		orgs := filepath.Join(root, "orgs")
		require.NoError(t, os.WriteFile(orgs, nil, 0o600)) // no folder of a tenant can be made, and there is room
		written := func() uint64 {                         // the number of the next file there: tmpfs counts upwards
			path := filepath.Join(root, "probe-of-the-test")
			require.NoError(t, os.WriteFile(path, nil, 0o600))
			info, err := os.Stat(path)
			require.NoError(t, err)
			require.NoError(t, os.Remove(path))
			return info.Sys().(*syscall.Stat_t).Ino
		}
		before := written()
		for i := range 20 {
			_, err := tryOpen(t.Context(), n, tenantID(t, strings.Repeat("u", i+1)))
			require.ErrorIs(t, err, messages.ErrStorage)
			synctestWait()
			require.NoError(t, n.Full())
		}
		require.EqualValues(t, 2, written()-before, "one try, and the file of this test")
		require.NoError(t, os.Remove(orgs))
		open(t, n, "u")
	})
}
