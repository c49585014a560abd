package verify

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/drill/record"
	"github.com/leasehold/leasehold/messages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What a whole run looks like, and every tampering with it, is tested in package drill, which has the processes.

func TestJudgeRefusesWhatIsNoRun(t *testing.T) {
	dir := t.TempDir()
	_, err := Judge(t.Context(), dir)
	require.ErrorIs(t, err, os.ErrNotExist)
	for name, info := range map[string]string{"no JSON": "{", "no keys": `{"tenants":["../x"]}`} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, InfoName), []byte(info), 0o600))
		_, err := Judge(t.Context(), dir)
		require.Error(t, err, name)
	}
}

func TestEveryRuleBelongsToAnInvariant(t *testing.T) {
	for rule, invariant := range map[string]string{
		"I1": "I1", "I6": "I6", "D14": "I3", "G2": "I5", "H1": "I5", "S": "I4", "S1": "I4", "S9": "I4", "S10": "I4", "W2": "I4", "L4": "I4",
	} {
		require.Equal(t, invariant, belongs(rule), rule)
	}
}

// An answer that a stopped process could only record after it was woken is one from before it was stopped, if it
// was asked for before that; not one that was asked for afterwards.
func TestI3_AnAnswerAcrossAFreezeCountsFromItsBeginning(t *testing.T) {
	wall := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r := &run{frozen: map[string][][2]int64{"r1.1": {{1000, 3000}}}}
	across := record.Line{Proc: "r1.1", Since: 900, At: 3100, Wall: wall}
	require.Equal(t, wall.Add(-2100), r.answered(across))
	across.Since = 1200 // the signal took a while to arrive
	require.Equal(t, wall.Add(-1900), r.answered(across))
	for _, l := range []record.Line{
		{Proc: "r1.1", Since: 3050, At: 3100, Wall: wall},
		{Proc: "r1.1", Since: 800, At: 900, Wall: wall},
		{Proc: "r2.1", Since: 900, At: 3100, Wall: wall},
	} {
		require.Equal(t, wall, r.answered(l))
	}
}

func TestPrintShowsEveryInvariantAndCutsLongLists(t *testing.T) {
	v := Verdict{Gaps: []time.Duration{1500 * time.Millisecond}, Counts: Counts{Refused: map[string]int{"held": 1, "draining": 2}}}
	v.Invariants = append(v.Invariants, invariants...)
	for range shown + 2 {
		v.Invariants[3].Broken = append(v.Invariants[3].Broken, "S2 something")
	}
	var out bytes.Buffer
	require.NoError(t, v.Print(&out))
	for _, want := range []string{"I1  pass", "I4  FAIL (7)", "and 2 more", "2 draining, 1 held", "t1 1.5s"} {
		require.Contains(t, out.String(), want)
	}
	require.Equal(t, shown, strings.Count(out.String(), "S2 something"))
	require.ErrorIs(t, v.Print(full{}), errFull)
}

// What is shown of a run that broke: the lines about the finding's tenant, epoch and write, and no others.
func TestAFindingComesWithItsLines(t *testing.T) {
	dir := t.TempDir()
	one := "drill/t-0123456789abcdef0123456789abcdef"
	two := "drill/t-1123456789abcdef0123456789abcdef"
	require.NoError(t, os.Mkdir(filepath.Join(dir, "logs"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "logs", "r1.1.log"), []byte("time=2 level=WARN msg=mine key="+one+"\ntime=1 level=ERROR msg=other key="+two+
		"\ntime=3 level=INFO msg=quiet key="+one+"\n"), 0o600))
	life := func(kind messages.LifecycleKind) *messages.Lifecycle { return &messages.Lifecycle{Kind: kind} }
	r := &run{info: Info{Tenants: []string{one, two}}}
	for _, l := range []record.Line{
		{Kind: record.Intent, Write: "w7", Key: one}, {Kind: record.Ack, Write: "w7", Key: one, Epoch: 3, Text: "it"}, {Kind: record.Ack, Write: "w77", Key: one, Epoch: 3},
		{Kind: record.Lifecycle, Key: one, Epoch: 4, Life: life(messages.LifecycleServing), Text: "next"}, {Kind: record.Lifecycle, Key: one, Epoch: 9, Life: life(messages.LifecycleServing)},
		{Kind: record.Lifecycle, Key: one, Epoch: 3, Life: life(messages.LifecycleRenewed)}, {Kind: record.Lifecycle, Key: two, Epoch: 3, Life: life(messages.LifecycleServing)},
		{Kind: record.Row, Key: one, Write: "w7"}, {Kind: record.LeaseCall, Key: one, Op: messages.OpAcquire, Epoch: 2, Text: "granted"},
	} {
		l.Proc, l.At = "r1.1", 1
		r.lines = append(r.lines, l)
	}
	got := r.evidence(dir, []string{"I3 t1 e3: the write w7 was acknowledged too late"})
	require.Len(t, got, 6)
	for i, want := range []string{"I3 t1 e3", `"k":"intent"`, `"text":"it"`, `"text":"next"`, `"text":"granted"`, "msg=mine"} {
		require.Contains(t, got[i], want)
	}
	require.Nil(t, r.evidence(dir, nil))
	require.Contains(t, strings.Join(r.evidence(dir, []string{"I4 the drill waited in vain"}), "\n"), "msg=other", "whoever is concerned")

	var out bytes.Buffer
	require.NoError(t, Verdict{Invariants: []Invariant{{Name: "I3", Broken: got[:1], Evidence: got}}}.Print(&out))
	require.Contains(t, out.String(), "msg=mine")
}

func TestSlownessExcusesNoLostWrite(t *testing.T) {
	for _, tc := range []struct{ tooSlow, onlyTime, ok, want bool }{
		{true, true, false, true}, {true, false, false, false}, {false, true, false, false}, {true, false, true, false},
	} {
		require.Equal(t, tc.want, Verdict{TooSlow: tc.tooSlow, OnlyTime: tc.onlyTime, OK: tc.ok}.CouldNotJudge(), "%+v", tc)
	}
}

var errFull = errors.New("no room")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestJudgeOpensSaysWhatNobodyCouldOpen(t *testing.T) {
	key := messages.Key{Org: "drill", Tenant: "t-0123456789abcdef0123456789abcdef"}
	r := &run{info: Info{Tenants: []string{key.String()}}, keys: []messages.Key{key}}
	r.lines = []record.Line{
		{Kind: record.Lifecycle, Key: key.String(), Proc: "r1.1", Epoch: 2, Life: &messages.Lifecycle{Kind: messages.LifecycleFailed, Code: messages.CodeCorrupt, Object: "o"}},
		{Kind: record.Lifecycle, Key: key.String(), Proc: "r2.1", Epoch: 3, Life: &messages.Lifecycle{Kind: messages.LifecycleFailed, Code: messages.CodeCorrupt, Object: "o"}},
		{Kind: record.Action, Op: OpStuck, Text: "x"},
		{Kind: record.TookOver, Key: key.String(), Code: messages.CodeCorrupt, Text: "y"},
	}
	var rules, late []string
	broke := func(rule, format string, args ...any) { rules = append(rules, rule) }
	r.judgeOpens(broke, func(rule, format string, args ...any) { broke(rule, format, args...); late = append(late, rule) })
	require.Equal(t, []string{"I4"}, late, "what the drill waited for may come on a faster machine")
	require.Equal(t, []string{"I4", "I4", "I4"}, rules, "one for the object, one for the drill, one for the verifier")
	r.lines = nil
	rules = nil
	r.judgeOpens(broke, broke)
	require.Equal(t, []string{"I4"}, rules, "nobody took it over")
}
