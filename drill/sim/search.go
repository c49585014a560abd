package sim

import (
	"testing"

	"github.com/leasehold/leasehold/messages/planted"
)

// Found is the outcome of a search for a planted fault.
type Found struct {
	Fault planted.Fault
	// Seeds is how many seeds were needed; 0: it was not found.
	Seeds int
	// Result is that of the seed that found it.
	Result Result
}

// profilesFor names the profiles that a planted fault needs: those under which the rule that it
// leaves out is put to the test at all.
var profilesFor = map[planted.Fault][]string{
	planted.WindowFromAnswer:       {"grayleases"},
	planted.MarginZero:             {"clocks"},
	planted.LateAnswerNewestSent:   {"grayleases"},
	planted.ServeAfterLostRelease:  {"grayleases"},
	planted.AdoptWithoutRenewal:    {"acquires"},
	planted.AdoptReleasedEpoch:     {"forgets", "grayleases"},
	planted.NoSelfFence:            {"stores"},
	planted.IgnoreLeaseLost:        {"stores"},
	planted.ListBeforeGrant:        {"openings", "suspends"},
	planted.AdoptOwnBase:           {"reset"},
	planted.NewestObject:           {"suspends", "openings"},
	planted.IgnoreFloor:            {"forgets"},
	planted.PinBeforeVerify:        {"rot"},
	planted.NoSeal:                 {"suspends"},
	planted.SealBaseSlotsOnly:      {"suspends"},
	planted.ServeBeforePin:         {"crashes"},
	planted.PinAnswerGuessed:       {"openings"},
	planted.NumbersAsText:          {"aged"},
	planted.NoVerify:               {"rot"},
	planted.AckBeforeCommit:        {"freezes"},
	planted.NoFenceBeforeCommit:    {"stores"},
	planted.NoFenceAfterCommit:     {"freezes"},
	planted.RefuseAfterCommit:      {"freezes"},
	planted.IgnoreSlotTaken:        {"suspends"},
	planted.ManifestBeforeImage:    {"crashes"},
	planted.ImageTimeoutOK:         {"stores"},
	planted.RecutNumber:            {"stores"},
	planted.SnapshotGap:            {"stores"},
	planted.CleanupHalfPublished:   {"forgets"},
	planted.ConfirmWithoutFence:    {"wakers"},
	planted.RetentionNoRenewal:     {"wakers"},
	planted.RetentionRenewalBefore: {"wakers"},
	planted.RetentionOwnBase:       {"calm"},
	planted.RetentionSweepsSeals:   {"suspends"},
	planted.ForgetDeleteFirst:      {"forgets"},
	planted.ForgetTenantPrefix:     {"forgets"},
	planted.ForgetResume:           {"forgets"},
}

// Search simulates one seed after the other, from o.Seed on, until the planted fault is found, but no
// more than most. The profiles are those that suit the fault, in turn; Planted is set to the fault.
func Search(t *testing.T, fault planted.Fault, o Options, most int) Found {
	t.Helper()
	names := profilesFor[fault]
	first := o.Seed
	for i := range most {
		o.Seed = first + uint64(i)
		o.Planted = planted.Of(fault)
		if len(names) > 0 {
			o.Profile = ProfileNamed(names[i%len(names)])
		}
		if r := Run(t, o); !r.OK() {
			return Found{Fault: fault, Seeds: i + 1, Result: r}
		}
	}
	return Found{Fault: fault}
}
