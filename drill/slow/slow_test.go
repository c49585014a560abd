package slow

import (
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A timer that fires late, and a disk that takes its time, are seen; a machine that is in time is not called slow.
func TestALateMachineIsSeen(t *testing.T) {
	for name, tc := range map[string]struct {
		timer, disk time.Duration
		want        bool
	}{
		"in time":      {0, 5 * time.Millisecond, false},
		"a late timer": {700 * time.Millisecond, 0, true},
		"a slow disk":  {0, 900 * time.Millisecond, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				m := start(func(d time.Duration) *time.Timer {
					if n++; n == 50 {
						d += tc.timer
					}
					return time.NewTimer(d)
				}, func() time.Duration { time.Sleep(tc.disk); return tc.disk })
				time.Sleep(10 * time.Second)
				got := m.Stop()
				require.Equal(t, Report{Timer: tc.timer, Disk: tc.disk}, got)
				require.Equal(t, tc.want, got.TooSlow(400*time.Millisecond))
				require.Equal(t, got, m.Stop())
				late := errors.New("it did not happen in time")
				err := m.Excuse(late, 400*time.Millisecond)
				require.ErrorIs(t, err, late)
				require.Equal(t, tc.want, errors.Is(err, ErrTooSlow))
			})
		})
	}
}

func TestTheDiskIsMeasured(t *testing.T) {
	dir := t.TempDir()
	m := Start(dir)
	time.Sleep(2 * every)
	require.NotZero(t, m.Stop().Disk)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}
