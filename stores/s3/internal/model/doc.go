// Package model is an exhaustive model of how a lease in a bucket is taken, renewed and given up when its renewals
// stand in a renewal log (docs/decisions/0031-renewal-logs-in-a-bucket.md). It has tests only, and shares no code with the
// package s3: it says whether the RULES leave one owner, not whether the code keeps the rules. Begin with
// model_test.go: which configurations hold, which broken rules are found, which rules turned out not to be needed.
//
// # What is modelled
//
// One lease: the object of its record (version, grant, span, released or not, the log and the member that it names), and
// up to three renewal logs (version, closed or not, per member the newest renewal and whether it is revoked). Two or
// three processes, each a contender, a holder and the writer of its logs in one. A process reads one object, or sends one
// replacement of one object, at a time; but a write of its log and one of the record may be under way together. A
// replacement lands, if the version that it names is still there, at any time after it was sent, and its answer comes at any time
// after that. The sender may give it up; then it lands at any later time, or never. Between any two of these a process can
// stop, also for ever, which is what a crash is.
//
// Time is in ticks, for all at one rate. A span is how many ticks are left since the sending; a process believes that it
// holds the lease while something is left of what it was ANSWERED. A contender may find a record or a renewal over at
// any time from when its span has passed since its sending: no proof of the package s3 can say so earlier.
//
// Nothing bounds how long a run is: versions, members and grants that nothing can tell apart any more get one name
// (names_test.go), so the states are finitely many, and each is visited.
//
// # What must hold
//
//   - P1: no two processes believe at one time that they hold the lease, and no process that it holds it at two grants.
//   - P2: a grant replaces the very grant that its sender read, so epochs are 1, 2, 3, …, each given once; a renewal,
//     forget or release lands on its own grant only.
//   - P3: a renewal that is answered as a success took effect while the lease was still at its grant.
//   - P4: from every state, a contender that goes on alone is granted the lease.
//   - P5: a read (the record, then the log) says what held at one instant between its two requests.
//
// # What is not modelled
//
// The proofs themselves (clocks, headers, sightings; that a sighting is of one renewal and not of one version of the log),
// the trail, several leases in one log (but the log also changes, and is closed, for the sake of others), ttls that differ
// (but for a forget, whose span is what is left), and a release by another process than the holder.
package model
