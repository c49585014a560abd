// Command drill is the fault-injection drill: it starts real processes, hurts them with real signals, and
// proves from what they have left behind that the contract's invariants I1 to I6 held.
//
//	go run ./drill run                          four replicas, two tenants, about 20 s
//	go run ./drill run --seed 7 --replicas 12 --tenants 24 --duration 1m
//	go run ./drill run --break newest-object    with a broken part: it must be found, exit code 1
//	go run ./drill run --break all              each in turn; exit code 0 if every one was found
//	go run ./drill run --leases postgres        the leases on a server of the drill's own, which is hurt as well
//	go run ./drill run --leases nats --durable s3
//	go run ./drill run --leases nats --steps cut,half-close
//	go run ./drill run --dir /tmp/d             keeps the run's folder
//	go run ./drill verify /tmp/d                judges it again, from its files alone
//
// # What it does
//
// Each replica (package replica) is an operating system process with a node of its own. All share one
// lease store and one durable store, by default a file and a directory, and contend for every tenant. While a replica owns one, it
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
// With --leases nats, postgres, mysql or s3, and with --durable nats or s3 (in any combination, also with sqlite and dir), the
// drill starts private servers on the loopback interface (package engine), and each replica reaches them by way of a proxy of
// its own, in the drill's process, in front of each. The schedule has more steps then, and takes 40 s. Two are done to a server:
//
//	server-kill  SIGKILL to the server with all its processes, and a new start 300 ms later
//	server-stop  SIGSTOP for 1,800 ms, past every lease, and SIGCONT: every holder fences itself meanwhile, and what
//	             was sent before is carried out when nobody waits for it any more
//
// Where there are two servers, the seed says which one is hit. The others are done to connections, with all servers:
//
//	cut          the owner's connections are cut and new ones are refused, past every lease and until another
//	             replica has had a write of every tenant acknowledged: the holder is left with its own clock
//	half-close   the same, but the connections stay open: what the owner asks arrives, and the answers vanish. A connection
//	             that has lost an answer stays silent afterwards, and must be replaced by whoever uses it
//	slow         every answer to every replica is held up by 300 to 800 ms, for 2,500 ms
//	lost-answers one in five answers to any replica is swallowed, and its connection closed, for 2,500 ms: what was asked
//	             took effect, and who asked cannot know (S10)
//	reset        every connection is reset, again and again, each after a random number of bytes up to 32 KiB, in the
//	             middle of whatever passes, for 2,500 ms
//
// If the leases are no server's, cut and half-close take the durable copies away only, and the owner has to go on. After each
// of the steps every tenant must take writes again and be copied; after those upon connections also every replica must get
// answers from both of its stores, and none may have ended. What the faults have hit is counted and printed, and a step that
// has hit nothing fails. --break no-self-fence --leases nats --steps cut shows what they are good for.
//
// The servers have the clock of this machine: a drill cannot show what a store's clock that runs
// differently would do (the lease stores' own tests do). PostgreSQL and MariaDB must be installed, and are started on Linux only;
// NATS and S3 (versitygw) are linked in.
//
// In the end every node hands off, and a verifier (package verify) with nothing broken takes every tenant over
// and judges: from the records, the lease store's audit trail, and every object that ever landed
// (what retention deletes is archived first). What was on a server is copied into the run's folder before that
// ends: drill verify needs no server.
//
// # How to read the table
//
// One line for each invariant: "pass", or "FAIL" with the number of findings, and what it was checked on.
// Below it come the findings; each begins with the rule of the contract that it is about (S2 is a
// part of what I4 promises). "lost" counts writes that were acknowledged and are not there in the end: that is
// allowed for the tail of a crashed epoch after its last snapshot, and for nothing else (I5). "twice" must be 0.
// The longest gap is what a client would have waited: about TTL after a kill, some 100 ms after a handoff.
//
// Below a finding come lines of the records and of the processes' logs about its tenant, its epoch and its writes.
//
// The exit code is 0 if every invariant holds, 1 if one is broken (which is what --break is meant to show) or
// the drill could not be done, 2 for a command line that cannot work, 3 if the machine was too slow to tell: something took too
// long, or did not come about in its time, and meanwhile a timer of the drill itself was later than the margin of the
// leases, or its disk took longer for a small write. A second owner or a lost write is a failure on the slowest machine. With --break all, and with several
// names, it is 0 if every broken part was found by an invariant that it breaks, 3 if one was not and the machine was too slow, and 1 otherwise.
package main
