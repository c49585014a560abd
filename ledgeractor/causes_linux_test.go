package ledgeractor_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/localfile"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/storetest"
)

func requireCause(t *testing.T, err error, code messages.Code, cause string) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, code, messages.CodeOf(err), "%v", err)
	require.Contains(t, messages.AsError(err).Message, cause, "%v", err)
}

func TestQ7_OpeningALedgerNamesTheCause(t *testing.T) {
	for name, take := range map[string]struct {
		from  func(t *testing.T, folder string, free int) (back func())
		cause string
	}{
		"descriptors": {func(t *testing.T, _ string, free int) func() { return storetest.FewDescriptors(t, free) }, localfile.NoDescriptors},
		"inodes":      {func(t *testing.T, folder string, free int) func() { return storetest.FillInodes(t, folder, free) }, localfile.NoInodes},
	} {
		t.Run(name, func(t *testing.T) {
			folder, refused := storetest.SmallDisk(t, "8m,nr_inodes=60", 0), 0
			for free := 0; ; free++ {
				back := take.from(t, folder, free)
				l := launch(t, func(c *ledgeractor.Config) { c.Path = filepath.Join(folder, string(rune('a'+free))) })
				err := (<-l.opened).Err
				back()
				l.stop()
				if err == nil {
					break
				}
				requireCause(t, err, messages.CodeStorage, take.cause)
				refused++
			}
			require.GreaterOrEqual(t, refused, 3)
			t.Logf("%d refusals name the cause", refused)
		})
	}
}

func TestQ7_AQueryProcessThatCannotBeStartedNamesTheCause(t *testing.T) {
	for free := 0; ; free++ {
		_, with := queries(t, ledgeractor.QueriesConfig{Processes: true, TempDir: t.TempDir()})
		l := start(t, with)
		back := storetest.FewDescriptors(t, free)
		_, err := l.Query(t.Context(), "SELECT 1")
		back()
		l.stop()
		if err == nil {
			require.Greater(t, free, 2)
			t.Logf("%d refusals name the cause", free)
			return
		}
		requireCause(t, err, messages.CodeUnavailable, localfile.NoDescriptors)
	}
}

// Reads of this process: a connection is opened for them.
func TestQ7_AReadThatCannotOpenTheLedgerNamesTheCause(t *testing.T) {
	l := start(t)
	back := storetest.FewDescriptors(t, 0)
	_, _, err := l.Events(t.Context(), 0, 10)
	back()
	requireCause(t, err, messages.CodeStorage, localfile.NoDescriptors)
	_, _, err = l.Events(t.Context(), 0, 10)
	require.NoError(t, err)
	back = storetest.FewDescriptors(t, 0)
	_, err = ledgeractor.Verify(t.Context(), l.path, testKey)
	back()
	requireCause(t, err, messages.CodeStorage, localfile.NoDescriptors)
}
