package actors_test

import (
	"database/sql"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/mattn/go-sqlite3"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/storetest"
)

// asideKinds reads a ledger that a node has set aside, as an operator would: with any SQLite.
func (f *fleet) asideKinds(n *actors.Node, key messages.Key, folder string) []string {
	f.t.Helper()
	return f.fileKinds(filepath.Join(f.tenantRoot(n, key), "aside", folder, "ledger.db"))
}

func (f *fleet) fileKinds(path string) (out []string) {
	f.t.Helper()
	db, err := sql.Open("sqlite3", "file:"+path+"?mode=ro")
	require.NoError(f.t, err)
	defer db.Close()
	rows, err := db.Query("SELECT kind FROM events ORDER BY seq")
	require.NoError(f.t, err)
	defer rows.Close()
	for rows.Next() {
		var kind string
		require.NoError(f.t, rows.Scan(&kind))
		out = append(out, kind)
	}
	require.NoError(f.t, rows.Err())
	return out
}

func (f *fleet) tenantRoot(n *actors.Node, key messages.Key) string {
	f.t.Helper()
	root, err := key.Root(filepath.Join(f.root, n.Name()))
	require.NoError(f.t, err)
	return root
}

// local returns the folders of local files of a tenant on a node, relative to its root.
func (f *fleet) local(n *actors.Node, key messages.Key) (out []string) {
	f.t.Helper()
	root := f.tenantRoot(n, key)
	for _, pattern := range []string{"e*", "aside/e*"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(f.t, err)
		for _, path := range paths {
			out = append(out, strings.TrimPrefix(path, root+"/"))
		}
	}
	return out
}

// on lets a node start again on the state root of another one.
func on(n *actors.Node) func(*actors.Config) {
	return func(c *actors.Config) {
		c.StateRoot = filepath.Join(filepath.Dir(c.StateRoot), n.Name())
		c.NodeName = n.Name()
	}
}

// TestK5_WhatNoSnapshotHoldsIsSetAsideAndNeverDeleted: in whichever way an ownership ends.
func TestK5_WhatNoSnapshotHoldsIsSetAsideAndNeverDeleted(t *testing.T) {
	succeeded := func(t *testing.T, f *fleet, n *actors.Node, tenant *actors.Tenant) *actors.Node {
		open(t, f.start(rarely), "u")
		f.leases.Clear()
		time.Sleep(ttl)
		return n
	}
	for name, end := range map[string]func(*testing.T, *fleet, *actors.Node, *actors.Tenant) *actors.Node{
		"a successor was faster":                    succeeded,
		"a successor was faster, with no way there": succeeded,
		"a shutdown that could not save it": func(t *testing.T, f *fleet, n *actors.Node, _ *actors.Tenant) *actors.Node {
			require.Error(t, n.Shutdown(within(t, 2*ttl)))
			return f.start(rarely, on(n))
		},
		"an abort": func(t *testing.T, f *fleet, n *actors.Node, _ *actors.Tenant) *actors.Node {
			require.NoError(t, n.Abort())
			return f.start(rarely, on(n))
		},
		"a panic of the snapshot child": func(t *testing.T, f *fleet, n *actors.Node, tenant *actors.Tenant) *actors.Node {
			f.durable.BeforeNext(storetest.OpPut, func(ctxT, storetest.Call) { panic("a bug in a binding") })
			_, err := tenant.Snapshot(within(t, time.Minute))
			require.Error(t, err)
			return n
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, f *fleet) {
				var cut atomic.Bool
				var logged lines
				n := f.start(rarely, func(c *actors.Config) {
					c.Durable, c.SweepEvery, c.SetAsideFor = partition{f.durable, &cut}, time.Minute, time.Millisecond
					c.Log = slog.New(slog.NewTextHandler(&logged, nil))
				})
				tenant := fenced(t, f, n)
				cut.Store(!strings.HasPrefix(name, "a panic"))
				if strings.HasPrefix(name, "a successor") {
					toTheFence(t, f)
					time.Sleep(margin)
				}
				n = end(t, f, n, tenant)
				f.leases.Clear()
				cut.Store(false)
				time.Sleep(3 * ttl)
				_, err := n.Tenant(within(t, ttl), "acme", tenant.Key().Tenant)
				if err != nil {
					require.ErrorIs(t, err, messages.ErrHeld)
				}
				time.Sleep(5 * time.Minute) // of sweeps
				require.Contains(t, f.local(n, tenant.Key()), "aside/e00000001")
				require.Equal(t, []string{"0", "1"}, f.asideKinds(n, tenant.Key(), "e00000001"))
				require.Len(t, f.lifecycle(messages.LifecycleSetAside), 1, "reported, once")
				require.Contains(t, logged.String(), filepath.Join(f.tenantRoot(n, tenant.Key())), "the log says where it is")
			})
		})
	}
}

// TestK5_WhatIsSavedDoesNotFillTheDisk: a crash leaves the files of every open tenant, and few of them hold anything new.
func TestK5_WhatIsSavedDoesNotFillTheDisk(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start()
		for _, u := range []string{"saved", "untouched", "tail"} {
			appendKind(t, open(t, n, u), "1")
		}
		time.Sleep(2*snapEvery + snapEvery/2)
		require.NoError(t, open(t, n, "untouched").Handoff(t.Context()))
		untouched := open(t, n, "untouched")
		appendKind(t, open(t, n, "tail"), "2")
		require.NoError(t, n.Abort())
		n = f.start(on(n))
		time.Sleep(ttl)
		for _, u := range []string{"saved", "untouched", "tail"} {
			require.Equal(t, []string{"1"}, kinds(t, open(t, n, u)), u)
		}
		time.Sleep(time.Second)
		saved, tail := open(t, n, "saved").Key(), open(t, n, "tail").Key()
		require.Equal(t, []string{"e00000002"}, f.local(n, saved))
		require.Equal(t, []string{"e00000003"}, f.local(n, untouched.Key()))
		require.Equal(t, []string{"e00000002", "aside/e00000001"}, f.local(n, tail))
		require.Equal(t, []string{"1", "2"}, f.asideKinds(n, tail, "e00000001"))
		require.NoError(t, n.Shutdown(t.Context()))
		require.Empty(t, f.local(n, saved), "a handoff leaves nothing")
		require.Equal(t, []string{"aside/e00000001"}, f.local(n, tail))
	})
}

// Of a tenant that is never opened here again, the sweep looks at the files when their time has come.
func TestK5_TheSweepDeletesOnlyWhatIsSaved(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start()
		saved, tail, unsure := open(t, n, "saved"), open(t, n, "tail"), open(t, n, "not old enough")
		for _, tenant := range []*actors.Tenant{saved, tail, unsure} {
			appendKind(t, tenant, "1")
		}
		time.Sleep(2*snapEvery + snapEvery/2)
		appendKind(t, tail, "2")
		require.NoError(t, n.Abort())
		age(t, filepath.Join(f.tenantRoot(n, saved.Key()), "e00000001"))
		age(t, filepath.Join(f.tenantRoot(n, tail.Key()), "e00000001"))
		n = f.start(on(n))
		time.Sleep(time.Second)
		require.Empty(t, f.local(n, saved.Key()))
		require.Equal(t, []string{"aside/e00000001"}, f.local(n, tail.Key()))
		require.Equal(t, []string{"e00000001"}, f.local(n, unsure.Key()))
		require.Len(t, f.lifecycle(messages.LifecycleSetAside), 1)
	})
}

// age makes a folder older than any SetAsideFor. (A bubble begins in the year 2000, and the times of files are real.)
func age(t *testing.T, folder string) {
	t.Helper()
	require.NoError(t, os.Chtimes(folder, time.Time{}, time.Unix(0, 0)))
}

func TestTheSweepLeavesTheFilesOfAnOpenTenantAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start(rarely, func(c *actors.Config) { c.SweepEvery = time.Minute })
		tenant := open(t, n, "u")
		appendKind(t, tenant, "1")
		age(t, filepath.Join(f.tenantRoot(n, tenant.Key()), "e00000001"))
		time.Sleep(10 * time.Minute)
		require.Equal(t, []string{"e00000001"}, f.local(n, tenant.Key()))
		require.EqualValues(t, 1, epoch(t, tenant))
		appendKind(t, tenant, "2")
		require.NoError(t, tenant.Handoff(t.Context()))
		require.Equal(t, []string{"1", "2"}, kinds(t, tenant))
	})
}

// A forget is the end of what was set aside too, on whichever node.
func TestS6_AForgetCoversWhatIsSetAside(t *testing.T) {
	for name, elsewhere := range map[string]bool{"on the same node": false, "on another node": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, f *fleet) {
				sweeps := func(c *actors.Config) { c.SweepEvery = time.Minute }
				n := f.start(rarely, sweeps)
				tenant := open(t, n, "u")
				appendKind(t, tenant, "1")
				require.NoError(t, n.Abort())
				n = f.start(rarely, sweeps, on(n))
				time.Sleep(ttl)
				tenant = open(t, n, "u")
				time.Sleep(time.Second)
				require.Contains(t, f.local(n, tenant.Key()), "aside/e00000001")
				if elsewhere {
					require.NoError(t, tenant.Handoff(t.Context()))
					require.NoError(t, open(t, f.start(rarely), "u").Forget(t.Context()))
					time.Sleep(2 * time.Minute)
				} else {
					require.NoError(t, tenant.Forget(t.Context()))
				}
				require.Empty(t, f.local(n, tenant.Key()))
				require.NoDirExists(t, filepath.Join(f.tenantRoot(n, tenant.Key()), "aside"))
			})
		})
	}
}

// What was abandoned by order is lost by order.
func TestH4_AnAbandonedTailIsNotSetAside(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start(rarely)
		tenant := open(t, n, "u")
		appendKind(t, tenant, "1")
		require.NoError(t, tenant.Abandon(t.Context()))
		synctestWait()
		require.Empty(t, f.local(n, tenant.Key()))
		require.Empty(t, f.lifecycle(messages.LifecycleSetAside))
	})
}

// lines is a log to read.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
