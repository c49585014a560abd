package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/drill/cluster"
	"github.com/leasehold/leasehold/drill/slow"
	"github.com/leasehold/leasehold/drill/verify"
)

// A machine that was too slow is neither a failure nor a pass; but a second owner or a lost write is a failure on any.
func TestAMachineThatWasTooSlowHasAnExitCodeOfItsOwn(t *testing.T) {
	late := slow.Report{Timer: 700 * time.Millisecond}
	broken := func(text string) []verify.Invariant { return []verify.Invariant{{Name: "I4", Broken: []string{text}}} }
	for name, tc := range map[string]struct {
		verdict verify.Verdict
		want    error
		says    string
	}{
		"it holds":                      {verify.Verdict{OK: true, Slow: late, TooSlow: true}, nil, "every invariant holds"},
		"in vain, on a slow machine":    {verify.Verdict{Slow: late, TooSlow: true, OnlyTime: true, Invariants: broken("I4 waited in vain")}, slow.ErrTooSlow, "700ms late"},
		"in vain, on a good machine":    {verify.Verdict{OnlyTime: true, Invariants: broken("I4 waited in vain")}, errBroken, "BROKEN"},
		"a loss, on a slow machine":     {verify.Verdict{Slow: late, TooSlow: true, Invariants: broken("I4 lost")}, errBroken, "BROKEN"},
		"a break that was found":        {verify.Verdict{Info: verify.Info{Break: "newest-object"}, TooSlow: true, Invariants: broken("I4 lost")}, errBroken, "was found"},
		"a break that was not, slow":    {verify.Verdict{Info: verify.Info{Break: "newest-object"}, OK: true, Slow: late, TooSlow: true}, slow.ErrTooSlow, "700ms late"},
		"a break that was not, in time": {verify.Verdict{Info: verify.Info{Break: "newest-object"}, OK: true}, nil, "NOT found"},
	} {
		says, err := outcomeOf(tc.verdict)
		require.Equal(t, tc.want, err, name)
		require.Contains(t, says, tc.says, name)
	}
	f := []cluster.Figure{{Broken: []string{"it took too long"}}}
	for name, tc := range map[string]struct {
		verdict cluster.Verdict
		want    error
	}{
		"it holds":                   {cluster.Verdict{TooSlow: true}, nil},
		"a step, on a slow machine":  {cluster.Verdict{TooSlow: true, Steps: f}, slow.ErrTooSlow},
		"a step, on a good machine":  {cluster.Verdict{Steps: f}, errBroken},
		"a check, on a slow machine": {cluster.Verdict{TooSlow: true, Steps: f, Checks: f}, errBroken},
	} {
		_, err := outcomeOfCluster(tc.verdict)
		require.Equal(t, tc.want, err, name)
	}
}
