// Package sim simulates a fleet: real nodes with the real supervisor, tenants, SQLite files and
// stores, in one testing/synctest bubble, where an hour of fleet life takes seconds. It is the main
// defence of the protocol. A test calls it:
//
//	func TestFleet(t *testing.T) { sim.Seeds(t, sim.Options{}, 200) }
//
// # What happens in a simulation
//
// A seed picks a [Profile] and decides everything that goes wrong: processes are killed, with their
// requests under way, and started again on the same disk; they are stopped past their lease, between
// two steps of a commit, in the middle of an open or between an image and its manifest, and go on
// when it hurts most; they are suspended, so that their clock loses the time (the declared limit D6);
// clocks run slow and the store's clock jumps, as far as the margin covers; stores answer late, twice
// too late or never, while requests land at any later time; the lease store, or both stores, are away from
// every node at once for up to four leases; deletions fail or land late; images rot
// and an operator removes them; tenants are handed off, abandoned, forgotten, snapshotted and
// competed for at any moment; snapshot numbers pass 999,999; a lease store loses its records.
//
// Clients append with and without idempotency keys, one event or several at once, of which one may be refused in the middle, retry,
// run transactions that pause, fail, panic or ignore that they were fenced, call commands, also ones that run once, read and query.
// Payments write an event and two tables in one transaction, marks a table and no event. Crowds of requests wait behind one
// transaction, so that those that fail share a commit with others, also at the moment of a handoff. Deletions of a forget may take longer than a lease.
// [Options] adds an application's own commands, migrations and workload.
//
// Then every fault ends, and the fleet must recover: each tenant is handed around all nodes, all
// nodes shut down, and a node that was never there before takes everything over and sweeps.
//
// # What is judged
//
// An observer outside of the nodes writes down what clients were told, what the lease store granted
// when, and every object that ever landed in the durable store. Package drill/history judges that by
// the rules I1 to I6, D14, G2, S1 to S11 and W2 of the contract, with a restore of its own. Besides
// it, every error that a client sees must be a typed one that something justifies (D13), a rightful
// open must not find the lineage damaged (S5), an owner that was away from the lease store, and neither killed
// nor stopped, must not have lost anything that it acknowledged (H2, checkTails), a healthy fleet must serve everywhere within 90 s
// ("liveness"), and hand everything off without a failure (H7).
//
// Clients look at every reply, as actors/client does, and more closely: each request says what its client has seen, and no answer comes from an
// older state, or from one without it, unless the client is told first (Q4, H2); the events of an append follow each other, all or none, and are
// duplicates exactly if they were there (W2); a read, and a query, name the state that they show, and show what this client was
// told (Q4, I4); the application's tables agree with the events in every state that anybody sees, and nothing of a transaction that failed is in
// them (W3); a refusal that means "nothing was done" is not followed by the effect, of orders too (G2, Q1); what waits when a handoff begins is
// carried out first (H1); a lease is held until its forget is through (S6); a tenant that there is is not unknown (Q2).
//
// # That it can fail
//
// [Search] plants one fault (messages/planted), which leaves one rule of the protocol out, and
// simulates seeds until a rule of the contract is broken. TestEveryPlantedFaultIsFound does so for
// every fault there is, and prints the table of faults.md.
//
// # How repeatable a seed is
//
// All chances are drawn from streams that depend on the seed and on what they are for ("the crashes
// of n1", "the puts of the second process of n0"), and never on the order in which goroutines run. So
// the schedule of faults belongs to the seed exactly (TestScheduleBelongsToTheSeed). Goroutines that
// wake at the same simulated instant run in an order that the Go scheduler picks, and from there two
// runs of one seed may drift apart: how far, TestHowRepeatableASeedIs measures. So a failure that
// depends on such an order may take a few runs of its seed to come back (-count=20).
//
// # Running it
//
//	go test ./drill/sim                                         200 seeds, 20 simulated hours, and the search
//	go test ./drill/sim -run '^TestSeeds$' -count=1 -sim.seed=7 one seed, with its event log if it fails
//	go test ./drill/sim -run '^TestSeeds$' -count=1 -timeout=0 -sim.first=1000 -sim.seeds=5000   a soak
//	go test ./drill/sim -run '^TestEveryPlantedFaultIsFound$' -count=1 -v -sim.planted=no-seal   one fault
//
// The flags are -sim.seed, -sim.seeds, -sim.first, -sim.profile and -sim.planted. Files are kept in
// memory (/dev/shm) where that exists.
package sim
