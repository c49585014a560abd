package main_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/stores/storetest"
)

// /readyz sees a disk without inodes as it sees a full one, and says which it is.
func TestQ7_ReadyzSeesInodes(t *testing.T) {
	t.Parallel()
	root, shared := storetest.SmallDisk(t, "8m,nr_inodes=60", 0), t.TempDir()
	p := run(t, root, "--leases=sqlite:"+filepath.Join(shared, "leases.db"), "--durable=dir:"+filepath.Join(shared, "copies"))
	require.Equal(t, 200, p.post(path(tenantOne)+"/events", `{"kind":"x"}`).status)
	remove := storetest.FillInodes(t, root, 2)
	r := p.post(path(number(2))+"/events", `{"kind":"x"}`)
	require.Equal(t, http.StatusInsufficientStorage, r.status, "%s", r.body)
	require.Contains(t, string(r.body), "no inodes left")
	require.NotContains(t, string(r.body), root)
	ready := func() string {
		r := p.get("/readyz")
		return fmt.Sprint(r.status, " ", strings.Contains(string(r.body), "no inodes left"), " ", strings.Contains(string(r.body), root))
	}
	require.Eventually(t, func() bool { return ready() == "503 true false" }, 10*time.Second, 10*time.Millisecond)
	require.Contains(t, string(p.get("/metrics").body), "leasehold_disk_full 1")
	require.Equal(t, 200, p.post(path(tenantOne)+"/events", `{"kind":"y"}`).status, "what is open goes on")
	remove()
	require.Eventually(t, func() bool { return ready() == "200 false false" }, 10*time.Second, 10*time.Millisecond)
	require.Equal(t, 200, p.post(path(number(2))+"/events", `{"kind":"x"}`).status)
	p.terminate()
}

// What is too long is refused before anything is made, whichever setting it comes from.
func TestQ7_PathsThatAreTooLongAreRefused(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	long := filepath.Join(folder, "made")
	for len(long) < 400 {
		long = filepath.Join(long, strings.Repeat("r", min(100, 400-len(long)-1)))
	}
	require.Len(t, long, 400)
	refused := func(want string, args ...string) {
		t.Helper()
		_, stderr, code := tool(t, append([]string{"run", "--listen=127.0.0.1:0"}, args...)...)
		require.NotZero(t, code)
		require.Contains(t, stderr, want)
		_, err := os.Lstat(filepath.Join(folder, "made"))
		require.ErrorIs(t, err, os.ErrNotExist)
	}
	refused("the path of the state root is too long: it has 400 bytes, and may have 341", "--state-root="+long)
	refused("the path of the lease file is too long: it has 512 bytes, and may have 504", "--state-root="+t.TempDir(), "--leases=sqlite:"+filepath.Join(long, strings.Repeat("l", 111)))
	refused("the path of the directory is too long: a name in it would have 256 bytes", "--state-root="+t.TempDir(), "--durable=dir:"+filepath.Join(folder, "made", strings.Repeat("d", 256)))
}
