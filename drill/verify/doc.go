// Package verify judges a run of the drill: [TakeOver] opens every tenant once more, as any next owner
// would, and records what it finds; [Judge] reads everything that a run has left behind (records, the
// lease store's audit trail, the durable store, the archive of what was deleted) into a history, and
// checks the invariants I1 to I6 on it. Judge needs nothing but the files, and changes none.
package verify
