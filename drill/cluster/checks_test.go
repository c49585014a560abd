package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
)

// The checks can fail: each is shown what it must find, and the same without the fault.

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func at(ms int) time.Time { return noon.Add(time.Duration(ms) * time.Millisecond) }

func key(t *testing.T) messages.Key {
	t.Helper()
	id, err := messages.DeriveTenant(make([]byte, 32), "https://drill.example", "user-1")
	require.NoError(t, err)
	return messages.Key{Org: "drill", Tenant: id}
}

func TestTrails(t *testing.T) {
	entry := func(op string, epoch uint64, granted, end int) messages.LeaseEntry {
		return messages.LeaseEntry{Op: op, Epoch: epoch, At: at(granted), End: at(end)}
	}
	good := []messages.LeaseEntry{entry("acquire", 1, 0, 100), entry("renew", 1, 50, 150), entry("acquire", 2, 150, 250), entry("release", 2, 160, 160), entry("acquire", 3, 160, 260)}
	k := key(t)
	for name, tc := range map[string]struct {
		change func([]messages.LeaseEntry)
		broken string
	}{
		"nothing":                {func([]messages.LeaseEntry) {}, ""},
		"an epoch twice":         {func(e []messages.LeaseEntry) { e[2].Epoch = 1 }, "epoch 1 was granted after epoch 1"},
		"an epoch skipped":       {func(e []messages.LeaseEntry) { e[4].Epoch = 4 }, "epoch 4 was granted after epoch 2"},
		"before the lease ended": {func(e []messages.LeaseEntry) { e[2].At = at(149) }, "before the end"},
		"before the release":     {func(e []messages.LeaseEntry) { e[4].At = at(159) }, "before the end"},
	} {
		t.Run(name, func(t *testing.T) {
			entries := append([]messages.LeaseEntry{}, good...)
			tc.change(entries)
			grants, broken := trails{k: entries}.check(0)
			require.Equal(t, 3, grants)
			if tc.broken == "" {
				require.Empty(t, broken)
				return
			}
			require.NotEmpty(t, broken)
			require.Contains(t, broken[0], tc.broken)
		})
	}
	tr := trails{k: good}
	require.Equal(t, at(50), tr.lastRenewal(k, 1))
	_, ok := tr.granted(k, 4)
	require.False(t, ok)
}

// logOf writes a node's log and returns its life.
func logOf(t *testing.T, owner string, lines ...string) life {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	text := fmt.Sprintf(`{"time":%q,"msg":"node started","owner":%q}`+"\n", at(0).Format(time.RFC3339Nano), owner) + "not JSON\n" + strings.Join(lines, "\n") + "\n{\"cut off"
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return life{log: path, started: at(0), stopped: at(1000)}
}

func line(ms int, event messages.LifecycleKind, epoch uint64) string {
	return fmt.Sprintf(`{"time":%q,"msg":"tenant","key":"k","event":%q,"epoch":%d}`, at(ms).Format(time.RFC3339Nano), event, epoch)
}

func TestTwoOwnersInTheLogs(t *testing.T) {
	a := logOf(t, "a", line(10, messages.LifecycleServing, 1), line(90, messages.LifecycleDraining, 1), line(100, messages.LifecycleReleased, 1))
	for name, tc := range map[string]struct {
		other  life
		broken bool
	}{
		"one after the other": {logOf(t, "b", line(101, messages.LifecycleServing, 2)), false},
		"both at once":        {logOf(t, "b", line(99, messages.LifecycleServing, 2)), true},
	} {
		all, err := windows([]*node{{lives: []life{a}}, {lives: []life{tc.other}}})
		require.NoError(t, err)
		checked, broken := twoOwners(all)
		require.Equal(t, 2, checked)
		require.Equal(t, tc.broken, len(broken) > 0, "%s: %v", name, broken)
	}
	all, err := windows([]*node{{lives: []life{a}}, {lives: []life{logOf(t, "b", line(130, messages.LifecycleServing, 2))}}})
	require.NoError(t, err)
	require.Equal(t, []time.Duration{40 * time.Millisecond}, handovers(all, at(80), at(95)), "from the drain to the next owner's service")
	require.Empty(t, handovers(all, at(91), at(200)))
	require.Equal(t, at(1000), all["k"][1].to, "the process was stopped then")
}

func TestAFrozenOwnerServesNobody(t *testing.T) {
	a := logOf(t, "a", line(10, messages.LifecycleServing, 1), line(900, messages.LifecycleLost, 1))
	b := logOf(t, "b", line(400, messages.LifecycleServing, 2))
	all, err := windows([]*node{{lives: []life{a}}, {lives: []life{b}}})
	require.NoError(t, err)
	_, broken := twoOwners(all)
	require.NotEmpty(t, broken)
	a.frozen = [][2]time.Time{{at(100), at(890)}}
	all, err = windows([]*node{{lives: []life{a}}, {lives: []life{b}}})
	require.NoError(t, err)
	_, broken = twoOwners(all)
	require.Empty(t, broken)
}

// judged is a drill of one tenant that has been asked some things.
func judged(t *testing.T, all ...asked) *drill {
	return &drill{keys: []messages.Key{key(t)}, load: &load{keys: []messages.Key{key(t)}, all: all}}
}

func event(seq int64, idem string) messages.StoredEvent {
	return messages.StoredEvent{Seq: seq, Event: messages.Event{IdemKey: idem}}
}

func TestEventsAgainstAcknowledgements(t *testing.T) {
	owner := messages.NewOwner("n1", "x")
	one := asked{key: "k0", owner: owner, epoch: 1, seq: 1, done: at(100)}
	for name, tc := range map[string]struct {
		acknowledged []asked
		there        []messages.StoredEvent
		crash        int // 0: none
		told         bool
		broken       string
	}{
		"as it was":             {[]asked{one}, []messages.StoredEvent{event(1, "k0")}, 0, false, ""},
		"not acknowledged":      {nil, []messages.StoredEvent{event(1, "k0")}, 0, false, ""},
		"lost":                  {[]asked{one}, nil, 0, false, "is lost"},
		"twice":                 {[]asked{one}, []messages.StoredEvent{event(1, "k0"), event(2, "k0")}, 0, false, "twice"},
		"elsewhere":             {[]asked{one}, []messages.StoredEvent{event(1, "x"), event(2, "k0")}, 0, false, "is at 2"},
		"a gap":                 {nil, []messages.StoredEvent{event(2, "k0")}, 0, false, "has the seq 2"},
		"declared":              {[]asked{one}, nil, 500, true, ""},
		"declared and not told": {[]asked{one}, nil, 500, false, "was not told"},
		"too long before":       {[]asked{one}, nil, 60_000, true, "is lost"},
	} {
		t.Run(name, func(t *testing.T) {
			d := judged(t, tc.acknowledged...)
			if tc.crash > 0 {
				d.crashed("n1", at(tc.crash))
			}
			if tc.told {
				d.load.told = []asked{{}}
			}
			f := d.events([][]messages.StoredEvent{tc.there}, nil)
			if tc.broken == "" {
				require.Empty(t, f.Broken)
				return
			}
			require.NotEmpty(t, f.Broken)
			require.Contains(t, f.Broken[0], tc.broken)
		})
	}
}

func TestStaleAcknowledgements(t *testing.T) {
	tr := trails{key(t): {{Op: messages.OpAcquire, Epoch: 2, At: at(100)}}}
	require.Empty(t, judged(t, asked{epoch: 1, sent: at(99), done: at(200)}, asked{epoch: 2, sent: at(101)}).stale(tr).Broken)
	require.NotEmpty(t, judged(t, asked{epoch: 1, sent: at(101), done: at(102)}).stale(tr).Broken)
}
