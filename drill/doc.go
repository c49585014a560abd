// Command drill is the fault-injection drill: it starts real processes, hurts them with real signals, and
// proves from what they have left behind that the contract's invariants I1 to I6 held.
//
//	go run ./drill run                          four replicas, two tenants, about 20 s
//	go run ./drill run --seed 7 --replicas 12 --tenants 24 --duration 1m
//	go run ./drill run --break newest-object    with a broken part: it must be found, exit code 1
//	go run ./drill run --break all              each in turn; exit code 0 if every one was found
//	go run ./drill run --dir /tmp/d             keeps the run's folder
//	go run ./drill verify /tmp/d                judges it again, from its files alone
//
// # What it does
//
// Each replica (package replica) is an operating system process with a node of its own. All share one
// lease file and one durable directory, and contend for every tenant. While a replica owns one, it
// writes numbered events, half of them with idempotency keys, some of them through a command, and now
// and then the same one twice. Snapshots are cut every 120 ms; the store takes 40 ms for an image. The lease
// lives for 1,500 ms, with a margin of 400 ms, and is renewed every 300 ms. Each process records
// every intent and every answer in a file that survives it (package record).
//
// The schedule follows from the seed: which step, on the owner of which tenant, after which pause.
//
//	kill         SIGKILL to the owner; its node is started again, another one takes over
//	kill-upload  the same while an image is on its way
//	handoff      SIGTERM under load; the writers keep their handles and go on during the drain
//	freeze       SIGSTOP past the lease, SIGCONT; then its lease store is out of reach, so that nothing
//	             but its own clock can fence it
//	outage       the lease store is out of reach until the owner's own clock has fenced it, but comes back before
//	             the lease ends: it goes on at the same epoch
//	late-upload  SIGSTOP while an image is on its way; the successor is killed before its first snapshot; then
//	             the first one wakes up and its upload lands
//
// In the end every node hands off, and a verifier (package verify) with nothing broken takes every tenant over
// and judges: from the records, the lease store's audit trail, and every object that ever landed
// (what retention deletes is archived first).
//
// # How to read the table
//
// One line for each invariant: "pass", or "FAIL" with the number of findings, and what it was checked on.
// Below it come the findings; each begins with the rule of the contract that it is about (S2 is a
// part of what I4 promises). "lost" counts writes that were acknowledged and are not there in the end: that is
// allowed for the tail of a crashed epoch after its last snapshot, and for nothing else (I5). "twice" must be 0.
// The longest gap is what a client would have waited: about TTL after a kill, some 100 ms after a handoff.
//
// The exit code is 0 if every invariant holds, 1 if one is broken (which is what --break is meant to show) or
// the drill could not be done, 2 for a command line that cannot work. With --break all, and with several
// names, it is 0 if every broken part was found by an invariant that it breaks, and 1 otherwise.
package main
