package actors_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/messages"
)

// ledgerOf returns the one ledger below the state root of the fleet's first node.
func (f *fleet) ledgerOf() string {
	f.t.Helper()
	found, err := filepath.Glob(filepath.Join(f.root, "node-1", "orgs", "*", "tenants", "*", "e*", "ledger.db"))
	require.NoError(f.t, err)
	require.Len(f.t, found, 1)
	return found[0]
}

// losses are what may happen to the files of an open ledger so that its names do not stand for it any more. The connection still has it all.
var losses = map[string]func(path string) error{
	"deleted":        os.Remove,
	"WAL deleted":    func(path string) error { return os.Remove(path + "-wal") },
	"folder deleted": func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
	"state root emptied": func(path string) error {
		root, _, _ := strings.Cut(path, "/orgs/")
		return os.RemoveAll(filepath.Join(root, "orgs"))
	},
	"folder moved": func(path string) error { return os.Rename(filepath.Dir(path), filepath.Dir(path)+".old") },
	"replaced":     func(path string) error { return replace(path, nil) },
	"replaced by an earlier copy": func(path string) error {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return replace(path, data)
	},
	"a file in place of its folder": func(path string) error {
		if err := os.RemoveAll(filepath.Dir(path)); err != nil {
			return err
		}
		return os.WriteFile(filepath.Dir(path), nil, 0o600)
	},
}

func replace(path string, data []byte) error {
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// TestK5_ALedgerWhoseFilesAreLostIsSaved takes the files of an open ledger away, and looks that nothing acknowledged is missing, however
// that is met.
func TestK5_ALedgerWhoseFilesAreLostIsSaved(t *testing.T) {
	type fixture struct {
		*fleet
		node         *actors.Node
		tenant       *actors.Tenant
		acknowledged *[]string
	}
	write := func(t *testing.T, x fixture, kind string) error {
		_, err := x.tenant.Append(t.Context(), messages.Event{Kind: kind})
		if err == nil {
			*x.acknowledged = append(*x.acknowledged, kind)
		}
		return err
	}
	met := map[string]func(t *testing.T, x fixture){
		"by a write": func(t *testing.T, x fixture) {
			require.ErrorIs(t, write(t, x, "refused"), messages.ErrStorage)
			time.Sleep(time.Second)
			require.NoError(t, write(t, x, "after"), "the tenant is opened again from what was saved")
		},
		"by a read": func(t *testing.T, x fixture) {
			_, _, err := x.tenant.Events(t.Context(), 0, 1)
			require.ErrorIs(t, err, messages.ErrStorage)
			time.Sleep(time.Second)
			require.NoError(t, write(t, x, "after"))
		},
		"by a snapshot": func(t *testing.T, x fixture) {
			_, err := x.tenant.Snapshot(t.Context())
			require.NoError(t, err)
			time.Sleep(time.Second)
			require.NoError(t, write(t, x, "after"))
		},
		"by a handoff":           func(t *testing.T, x fixture) { require.NoError(t, x.tenant.Handoff(t.Context())) },
		"by a periodic snapshot": func(t *testing.T, x fixture) { time.Sleep(2 * snapEvery) },
		"by a shutdown":          func(t *testing.T, x fixture) { require.NoError(t, x.node.Shutdown(t.Context())) },
		"behind a closed fence": func(t *testing.T, x fixture) {
			back := x.cutOff(x.node.Owner())
			time.Sleep(3 * ttl)
			back()
			time.Sleep(ttl)
		},
		"while nothing can be saved": func(t *testing.T, x fixture) {
			back := x.noPuts()
			for i := range 40 {
				require.Error(t, write(t, x, fmt.Sprint("refused ", i)))
				time.Sleep(time.Second)
			}
			require.NotEmpty(t, x.node.Alarms())
			back()
			time.Sleep(4 * snapEvery)
			require.Empty(t, x.node.Alarms())
			require.NoError(t, write(t, x, "after"))
		},
	}
	for loss, lose := range losses {
		for how, meet := range met {
			t.Run(loss+", met "+how, func(t *testing.T) {
				inBubble(t, func(t *testing.T, f *fleet) {
					a := f.start()
					x := fixture{f, a, open(t, a, "u"), &[]string{}}
					require.NoError(t, write(t, x, "copied"))
					_, err := x.tenant.Snapshot(t.Context())
					require.NoError(t, err)
					for i := range 20 {
						require.NoError(t, write(t, x, fmt.Sprint(i)))
					}
					require.NoError(t, lose(f.ledgerOf()))
					meet(t, x)
					_ = a.Shutdown(t.Context())
					require.Equal(t, *x.acknowledged, kinds(t, open(t, f.start(), "u")))
					require.Len(t, f.lifecycle(messages.LifecycleFilesLost), 1)
				})
			})
		}
	}
}

// TestK5_ATruncatedLedgerNeverReachesACopy truncates a ledger whose pages are in the file: they are gone. The next owner gets the
// newest snapshot, and the loss is told.
func TestK5_ATruncatedLedgerNeverReachesACopy(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		a := f.start(rarely)
		tenant := open(t, a, "u")
		fill := func() {
			for range 40 {
				_, err := tenant.Append(t.Context(), messages.Event{Kind: "big", Payload: []byte(`"` + strings.Repeat("x", 200_000) + `"`)})
				require.NoError(t, err)
			}
		}
		fill()
		_, err := tenant.Snapshot(t.Context())
		require.NoError(t, err)
		fill()
		require.NoError(t, os.Truncate(f.ledgerOf(), 1<<20))
		_, err = tenant.Append(t.Context(), messages.Event{Kind: "refused"})
		require.ErrorIs(t, err, messages.ErrStorage)
		time.Sleep(time.Minute)
		require.Len(t, kinds(t, tenant), 40)
		require.Len(t, f.lifecycle(messages.LifecycleFilesLost), 1)
		require.Len(t, f.lifecycle(messages.LifecycleCorrupt), 1)
		require.NoError(t, a.Shutdown(t.Context()))
		require.Len(t, kinds(t, open(t, f.start(), "u")), 40)
	})
}
