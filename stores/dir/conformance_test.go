package dir_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/stores"
	"github.com/leasehold/leasehold/stores/dir"
	"github.com/leasehold/leasehold/stores/storetest"
)

func open(t *testing.T, cfg dir.Config) *dir.Store {
	t.Helper()
	if cfg.Root == "" {
		cfg.Root = t.TempDir()
	}
	s, err := dir.Open(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func TestF_Conforms(t *testing.T) {
	storetest.DurableStore(t, open(t, dir.Config{}))
}

func TestF_ConformsWithoutSync(t *testing.T) {
	require.Empty(t, storetest.CheckDurable(t.Context(), open(t, dir.Config{NoSync: true})))
}

func TestF_ConformsInASynctestBubble(t *testing.T) {
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		require.Empty(t, storetest.CheckDurable(t.Context(), open(t, dir.Config{Root: root})))
	})
}

func TestF_AnObjectOf8TB(t *testing.T) {
	root := t.TempDir()
	storetest.Oversized(t, open(t, dir.Config{Root: root}), func(t *testing.T, key string, size int64) {
		require.NoError(t, os.Truncate(filepath.Join(root, key), size)) // a sparse file
	})
}

// The suite can fail: each broken store fails the checks that are about what it breaks, and no others.
func TestF_TheSuiteCanFail(t *testing.T) {
	for _, tt := range []struct {
		name string
		wrap func(stores.DurableStore) stores.DurableStore
		want []string
		may  string // a check that fails or not, as the goroutines happen to meet
	}{
		{"F1_overwriting_put", storetest.OverwritingPut, []string{"F1", "F6"}, ""},
		{"F2_empty_for_absent", storetest.EmptyForAbsent, []string{"F2", "F5", "F8", "F.delete", "F.torn"}, ""},
		{"F3_truncating_put", storetest.TruncatingPut, []string{"F3"}, ""},
		{"F_unbounded_get", storetest.UnboundedGet, []string{"F.bound"}, ""},
		{"F4_unsorted_list", storetest.UnsortedList, []string{"F4"}, ""},
		{"F5_miscounting_delete", storetest.MiscountingDelete, []string{"F5", "F8"}, "F.race"},
		{"F6_check_then_put", storetest.CheckThenPut, []string{"F6"}, ""},
		{"F7_unchecked_keys", storetest.UncheckedKeys, []string{"F7", "F8"}, ""},
		{"F8_delete_by_text", storetest.DeleteByText, []string{"F8"}, ""},
		{"F_torn_put", storetest.TornPut, []string{"F.torn", "F.race"}, "F6"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel() // they wait more than they work
			failures := storetest.CheckDurable(t.Context(), tt.wrap(open(t, dir.Config{NoSync: true})))
			var ids []string
			for _, f := range failures {
				if !slices.Contains(ids, f.Check) && f.Check != tt.may {
					ids = append(ids, f.Check)
				}
			}
			require.ElementsMatch(t, tt.want, ids, "%v", failures)
		})
	}
}
