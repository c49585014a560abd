// Package history judges what happened to a fleet of nodes: it holds what clients asked and were
// told, what the nodes reported, what the lease store granted and what lies in the durable store,
// and says which of the contract's rules I1 to I6, D, G and S that breaks.
//
// The drill records real processes, the simulation (drill/sim) records a fleet in simulated time;
// both fill a [History] and call [History.Check], which is a pure function of it. The rules are
// implemented anew here: nothing of the code under test is called, not even to restore a ledger.
//
// Every write that is recorded carries an ID of its own, which the recorder stores in the event's
// SubjectID; retries with one idempotency key share one ID. That is how a row is known again.
package history
