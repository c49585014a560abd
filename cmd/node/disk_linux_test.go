package main_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/stores/storetest"
)

// The disk of the local files is full: writes are refused with a typed error, reads go on, what was
// acknowledged stays, and with space again everything works.
func TestRun_FullStateRoot(t *testing.T) {
	t.Parallel()
	root := storetest.SmallDisk(t, "8m", 0)
	shared := t.TempDir()
	p := run(t, root, "--snapshot-every=1h", "--leases=sqlite:"+filepath.Join(shared, "leases.db"), "--durable=dir:"+filepath.Join(shared, "copies"))
	require.Equal(t, 200, p.post(path(tenantOne)+"/events", `{"kind":"first"}`).status)
	require.Equal(t, 200, p.post(path(number(2))+"/events", `{"kind":"first"}`).status)
	filler := filepath.Join(root, "filler")
	require.ErrorIs(t, fill(filler), syscall.ENOSPC)

	payload := `"` + strings.Repeat("x", 512<<10) + `"`
	acked := []string{"first"}
	var refusal reply
	for n := 0; n < 50 && refusal.status == 0; n++ {
		kind := fmt.Sprintf("large-%d", n)
		if r := p.post(path(tenantOne)+"/events", `{"kind":"`+kind+`","payload":`+payload+`}`); r.status == http.StatusOK {
			acked = append(acked, kind)
		} else {
			refusal = r
		}
	}
	require.Equal(t, http.StatusInsufficientStorage, refusal.status, "%s %v", refusal.body, refusal.err)
	require.Equal(t, "storage", string(refusal.code()))
	require.Equal(t, acked, p.kinds(tenantOne))
	// A tenant that is not open cannot be opened, and says why.
	require.Equal(t, "storage", string(p.post(path(number(3))+"/events", `{"kind":"a","payload":`+payload+`}`).code()))
	require.Equal(t, []string{"first"}, p.kinds(number(2)))
	// Whoever asks where requests should go is told, and the metrics say why.
	ready := func() string {
		r := p.get("/readyz")
		return fmt.Sprint(r.status, " ", strings.Contains(string(r.body), `"cause":"storage"`))
	}
	require.Eventually(t, func() bool { return ready() == "503 true" }, 10*time.Second, 10*time.Millisecond)
	require.Contains(t, string(p.get("/metrics").body), "leasehold_disk_full 1")

	require.NoError(t, os.Remove(filler))
	require.Equal(t, 200, p.post(path(tenantOne)+"/events", `{"kind":"last"}`).status)
	require.Equal(t, 200, p.post(path(number(3))+"/events", `{"kind":"a"}`).status)
	require.Equal(t, "200 false", ready())
	p.terminate()
	again := run(t, t.TempDir(), "--leases=sqlite:"+filepath.Join(shared, "leases.db"), "--durable=dir:"+filepath.Join(shared, "copies"))
	require.Equal(t, append(acked, "last"), again.kinds(tenantOne))
	again.terminate()
}

// The disk of the durable store is full: tenants serve on, snapshots and handoffs are refused with a
// typed error and the tenant goes on serving (H3); with space again nothing was lost.
func TestRun_FullDurableStore(t *testing.T) {
	t.Parallel()
	copies := storetest.SmallDisk(t, "4m", 0)
	root := t.TempDir()
	p := run(t, root, "--snapshot-every=1h", "--durable-timeout=1s", "--durable=dir:"+copies)
	require.Equal(t, 200, p.post(path(tenantOne)+"/events", `{"kind":"first"}`).status)
	filler := filepath.Join(copies, ".filler")
	require.ErrorIs(t, fill(filler), syscall.ENOSPC)
	// A snapshot is past its point of no return when the store fails: it may be there, or come.
	for order, codes := range map[string][]string{"snapshot": {"storage", "unavailable", "unknown_outcome"}, "handoff": {"storage", "unavailable"}} {
		r := p.post(path(tenantOne)+"/"+order, "")
		require.Contains(t, codes, string(r.code()), "%s: %s", order, r.body)
	}
	require.Equal(t, 200, p.post(path(tenantOne)+"/events", `{"kind":"second"}`).status)
	require.NoError(t, os.Remove(filler))
	require.Equal(t, 204, p.post(path(tenantOne)+"/handoff", "").status)
	require.Equal(t, []string{"first", "second"}, p.kinds(tenantOne))
	p.terminate()
}

func TestRun_ReadOnlyStateRoot(t *testing.T) {
	t.Parallel()
	_, stderr, code := tool(t, "run", "--listen=127.0.0.1:0", "--state-root="+storetest.SmallDisk(t, "1m", syscall.MS_RDONLY))
	require.Equal(t, 1, code, stderr)
	require.Contains(t, stderr, "storage")
}

// fill writes until the disk is full.
func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // its content means nothing
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	return err
}
