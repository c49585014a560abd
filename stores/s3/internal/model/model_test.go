package model

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// most is how many states a configuration may have before its test gives up, and fails.
const most = 1_000_000

// all is the configuration that others begin with: A has a log, B has none; both take the lease whenever they can.
func all() config {
	return config{procs: 2, ttl: 2, acquires: [maxProcs]bool{true, true}, logs: [maxProcs]uint8{1},
		renewRec: true, forgets: true, releases: true}
}

// with is all() with a change.
func with(name string, change func(*config)) config {
	c := all()
	c.name = name
	change(&c)
	return c
}

func longer(c *config)   { c.ttl = 3 }
func lostLog(c *config)  { c.lostLog = true }
func lost(c *config)     { c.lostLog, c.lostRec, c.releases, c.renewRec = true, true, false, false }
func own(c *config)      { c.ownProof, c.lostLog, c.renewRec = true, true, false }
func others(c *config)   { c.closes, c.others, c.logs[0] = true, true, 2 }
func deleted(c *config)  { c.deletes, c.eager = 1, true }
func survives(c *config) { c.deletes, c.eager, c.survives = 1, true, true }
func reads(c *config)    { c.reads, c.waits = true, true }
func twoLogs(c *config)  { c.logs[1], c.renewRec, c.releases = 1, false, false }
func unnamed(c *config)  { c.unnamed, c.renewRec, c.releases = true, false, false }
func three(c *config) {
	c.procs, c.acquires[2], c.renewRec, c.forgets, c.releases = 3, true, false, false, false
}
func sameName(c *config) {
	three(c)
	c.sameName, c.acquires[1] = true, false
}

// TestD1_RenewalLogsLeaveOneOwner visits every state that the protocol can reach, in small configurations.
func TestD1_RenewalLogsLeaveOneOwner(t *testing.T) {
	for _, c := range []config{
		with("all operations", func(*config) {}),
		with("a longer span", longer),
		with("lost answers and late writes of the log", lostLog),
		with("lost answers and late writes of both", lost),
		with("a process takes its own lapsed lease, though a renewal that it gave up may land", own),
		with("a log that others change and close", others),
		with("a log that is deleted when no renewal stands in it", deleted),
		with("a log that is deleted whenever, and its absence counts for a span", survives),
		with("reads", reads),
		with("two processes with logs", twoLogs),
		with("records that name no log", unnamed),
		with("three processes", three),
		with("two processes of one name", sameName),
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var also func(*machine, *state) violation
			if !c.reads && !c.sameName {
				also = live(c, 1)
			}
			r := explore(c, most, every, also)
			t.Log(r)
			require.Equal(t, none, r.bad)
			require.True(t, r.whole, "there are more states")
		})
	}
}

// TestD1_RulesThatAreNeeded breaks one rule at a time, and expects the model to find what it was good for.
func TestD1_RulesThatAreNeeded(t *testing.T) {
	for _, c := range []struct {
		config
		mutant mutant
		finds  violation
		within int
	}{
		{with("who takes a lease does not revoke", func(*config) {}), noRevoke, p1, 10_000},
		{with("it revokes after it wrote the record", func(*config) {}), revokeAfterTake, p1, 10_000},
		{with("it revokes only a member that has renewals", func(*config) {}), revokeOnlyWhatIsThere, p1, 10_000},
		{with("it revokes whatever the version", func(*config) {}), revokeUnconditionally, p1, 20_000},
		{with("its condition is a version of the record read after the log", func(*config) {}), conditionReadLate, p1, 10_000},
		{with("its epoch is one more than that of an earlier version", func(*config) {}), epochReadEarly, p2, 20_000},
		{with("it looks at the record only", func(*config) {}), recordProofOnly, p1, 20_000},
		{with("it waits for a log that is not there", func(*config) {}), waitForLog, p4, 10_000},
		{with("live logs are closed, and closed is over", others), closeLiveMeansOver, p1, 50_000},
		{with("a record does not cover a write of the log under way", func(*config) {}), noCover, p1, 50_000},
		{with("a renewal is answered after a release", func(*config) {}), releaseBelievesLateRenewal, p1, 10_000},
		{with("a member is renewed after a release", func(*config) {}), renewAfterRelease, p1, 20_000},
		{with("a member is renewed after a lost write of the record", func(c *config) { c.lostRec = true }), renewAfterUnknownRecord, p1, 200_000},
		{with("the old member is renewed after the record names another", func(*config) {}), renewOldMember, p1, 50_000},
		{with("a member number is used again, as if new", func(*config) {}), reuseMember, p1, 100_000},
		{with("the writer opens a closed log", others), reopenClosed, p1, 200_000},
		{with("the window counts from the answer", func(*config) {}), windowFromAnswer, p1, 50_000},
		{with("a success is answered though its window has passed", unnamed), answerPastSpan, p3, 50_000},
		{with("a process takes its own lease while its renewal is on its way", own), ownProofForgetsWrite, p1alone, 10_000},
		{with("the writer makes a log again that was deleted", deleted), recreateVanished, p1, 100_000},
		{with("the renewals of a deleted log are over at once", survives), trustAbsent, p1, 100_000},
		{with("a log is made by the first renewal, and may be deleted", func(c *config) { c.deletes = 1 }), correct, p1, 50_000},
		{with("another process of the same name writes the record and does not revoke", sameName), adoptWithoutRevoke, p1, 200_000},
		{with("a write of the record does not wait, and a read", func(c *config) { c.reads = true }), correct, p5, 10_000},
		{with("the outcome of a renewal stays unknown, and a read", func(c *config) { reads(c); c.lostLog = true }), correct, p5, 20_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.config.mutant = c.mutant
			var also func(*machine, *state) violation
			if c.finds == p4 {
				also = live(c.config, 1)
			}
			r := explore(c.config, c.within, 1<<c.finds, also)
			t.Log(r)
			require.Equal(t, c.finds, r.bad)
		})
	}
}

// TestD1_RulesThatAreNotNeeded breaks rules that save requests, or that other rules make up for.
func TestD1_RulesThatAreNotNeeded(t *testing.T) {
	for _, c := range []struct {
		config
		mutant mutant
	}{
		// Versions that stay the same from the read to the replacement make the order of the reads irrelevant.
		{with("who takes a lease reads the log first", func(*config) {}), logReadFirst},
		{with("a log is closed though renewals in it stand", others), closeLive},
		{with("members of a closed log are over", others), closedMeansOver},
		{with("a member number is used again, but stays revoked", func(*config) {}), reuseMemberKeepsRevoked},
		// A log that is made before a record names it never comes back when it is gone: its writer only replaces it.
		{with("a log that is gone is not made to revoke a member", deleted), skipAbsent},
		// If the version of the log is unchanged, nobody has revoked the member: the lease was not taken yet.
		{with("a member is renewed after the span has passed", func(*config) {}), renewPastSpan},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.config.mutant = c.mutant
			r := explore(c.config, most, every, nil)
			t.Log(r)
			require.Equal(t, none, r.bad)
			require.True(t, r.whole, "there are more states")
		})
	}
}
