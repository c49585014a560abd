package run

import (
	"fmt"
	"slices"
	"strings"

	"github.com/leasehold/leasehold/drill/replica"
	"github.com/leasehold/leasehold/drill/verify"
	"github.com/leasehold/leasehold/messages/planted"
)

// Break is a deliberately broken part, and what provokes the loss that it leads to.
type Break struct {
	Name string
	Text string
	// Planted are the protocol's rules that the replicas leave out; LeaseStore is a broken lease store.
	Planted    planted.Set
	LeaseStore string
	// Steps are the schedule that shows it.
	Steps []Step
	// Finds are the rules of which at least one must be reported broken.
	Finds []string
}

// Breaks are the broken parts that the drill proves itself with.
//
// Some of them leave the seals out as well: with the seals in place a late upload of a predecessor meets
// "already there" before it can do harm, and the fault has no consequence (that is the point of having
// several lines of defence). Without them the drill shows what the rule itself is good for. In the same
// way, refuse-after-commit leaves the fence before the commit out, which hides it nearly always.
var Breaks = []Break{
	{Name: "no-compare-and-set", Text: "the lease store grants every acquire and evicts the holder",
		LeaseStore: replica.StoreNoCompareAndSet, Steps: []Step{Watch}, Finds: []string{"I3", "I2"}},
	{Name: "no-self-fence", Text: "the holder never fences itself by its own clock",
		Planted: planted.Of(planted.NoSelfFence), Steps: []Step{Freeze}, Finds: []string{"I3"}},
	{Name: "newest-object", Text: "the restore takes the newest object instead of following the pins",
		Planted: planted.Of(planted.NewestObject, planted.NoSeal), Steps: []Step{LateUpload}, Finds: []string{"I4"}},
	{Name: "ack-before-commit", Text: "work is acknowledged before its commit",
		Planted: planted.Of(planted.AckBeforeCommit), Steps: []Step{Outage}, Finds: []string{"I4", "I5"}},
	{Name: "retention-no-renewal", Text: "old copies are deleted without a renewal after the snapshot",
		Planted: planted.Of(planted.RetentionNoRenewal, planted.NoSeal), Steps: []Step{LateUpload}, Finds: []string{"I4"}},
	{Name: "manifest-before-image", Text: "the manifest is put before its image",
		Planted: planted.Of(planted.ManifestBeforeImage), Steps: []Step{KillUpload}, Finds: []string{"I4"}},
	{Name: "serve-before-pin", Text: "work is acknowledged before the base is pinned",
		Planted: planted.Of(planted.ServeBeforePin), Steps: []Step{Handoff}, Finds: []string{"I3"}},
	{Name: "confirm-without-fence", Text: "a snapshot counts although the fence is closed after its manifest",
		Planted: planted.Of(planted.ConfirmWithoutFence, planted.NoSeal), Steps: []Step{LateUpload}, Finds: []string{"I3"}},
	{Name: "ignore-slot-taken", Text: "somebody else's bytes in one's own slot are ignored, and the snapshot counts",
		Planted: planted.Of(planted.IgnoreSlotTaken, planted.ConfirmWithoutFence), Steps: []Step{LateUpload}, Finds: []string{"I3"}},
	{Name: "retention-own-base", Text: "retention deletes the pin of its own epoch",
		Planted: planted.Of(planted.RetentionOwnBase), Steps: []Step{Handoff, Handoff}, Finds: []string{"I4", "I5"}},
	{Name: "refuse-after-commit", Text: "work found fenced after its commit is answered as if it had not been done",
		// Twice, because a commit has to be under way at the very end of a window.
		Planted: planted.Of(planted.RefuseAfterCommit, planted.NoFenceBeforeCommit), Steps: []Step{Outage, Outage}, Finds: []string{"I5"}},
}

// breakNamed returns a break; the zero Break for "".
func breakNamed(name string) (Break, error) {
	if name == "" {
		return Break{}, nil
	}
	if i := slices.IndexFunc(Breaks, func(b Break) bool { return b.Name == name }); i >= 0 {
		return Breaks[i], nil
	}
	return Break{}, fmt.Errorf("unknown broken part %q; known: %s", name, strings.Join(BreakNames(), ", "))
}

// BreakNames returns the names of all broken parts, in order.
func BreakNames() []string {
	var names []string
	for _, b := range Breaks {
		names = append(names, b.Name)
	}
	return names
}

// IsFound reports whether a run with a broken part has reported an invariant that this part breaks.
func IsFound(v verify.Verdict) bool { return FirstFinding(v) != "" }

// FirstFinding returns the first finding about an invariant that the run's broken part breaks; "": none.
func FirstFinding(v verify.Verdict) string {
	b, err := breakNamed(v.Break)
	if err != nil || b.Name == "" {
		return ""
	}
	for _, i := range v.Invariants {
		if slices.Contains(b.Finds, i.Name) && len(i.Broken) > 0 {
			return i.Name + ": " + i.Broken[0]
		}
	}
	return ""
}

// Finding says in one line what became of a run's broken part.
func Finding(v verify.Verdict) string {
	if first := FirstFinding(v); first != "" {
		return fmt.Sprintf("%s was found, by %s", v.Break, first)
	}
	return fmt.Sprintf("%s was NOT found", v.Break)
}
