package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
)

// Two thousand tenants are open on one node at a time, each with its own ledger, lease and renewals;
// all of them are handed off at the end.
func TestRun_TwoThousandTenantsOpen(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("opens two thousand ledgers")
	}
	const tenants, callers = 2000, 32
	p := run(t, inMemory(t), "--ttl=60s", "--margin=10s", "--renew-every=10s", "--snapshot-every=1h", "--log-level=warn", "--shutdown-timeout=150s")
	begun := time.Now()
	var next atomic.Int64
	var group sync.WaitGroup
	failures := make(chan string, tenants)
	for range callers {
		group.Go(func() {
			for n := next.Add(1); n <= tenants; n = next.Add(1) {
				if r := p.post(path(number(int(n)))+"/events", `{"kind":"a"}`); r.status != 200 {
					failures <- fmt.Sprintf("%d %s %v", r.status, r.body, r.err)
				}
			}
		})
	}
	group.Wait()
	require.Empty(t, failures)
	opened := time.Since(begun)
	var list struct{ Tenants []actors.Status }
	require.NoError(t, json.Unmarshal(p.get("/v1/tenants").body, &list))
	require.Len(t, list.Tenants, tenants)
	for _, s := range list.Tenants {
		require.Equal(t, actors.StateServing, s.State)
		require.Empty(t, s.Fenced)
	}
	metrics := p.get("/metrics").body
	value := func(name string) float64 {
		m := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindSubmatch(metrics)
		require.NotNil(t, m, name)
		v, err := strconv.ParseFloat(string(m[1]), 64)
		require.NoError(t, err)
		return v
	}
	resident, goroutines := value("process_resident_memory_bytes"), value("go_goroutines")
	begun = time.Now()
	p.terminate()
	t.Logf("%d tenants opened and written to in %v, %.0f MiB resident (%.0f KiB each), %.0f goroutines; handed off in %v",
		tenants, opened.Round(time.Millisecond), resident/(1<<20), resident/tenants/1024, goroutines, time.Since(begun).Round(time.Millisecond))
	require.Less(t, resident, float64(2<<30))
}

// inMemory returns a folder on a file system in memory where there is one: how long a disk takes for
// ten thousand syncs, beside everything else that runs, is not what is tested.
func inMemory(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("/dev/shm", "leasehold-test-")
	if err != nil {
		t.Logf("on the disk: %v", err)
		return t.TempDir()
	}
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })
	return folder
}
