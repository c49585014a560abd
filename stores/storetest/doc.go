// Package storetest holds what tests of stores, and tests on top of stores, are made of:
//
//   - conformance suites that any binding can run: [LeaseStore] and [DurableStore] in a test,
//     [CheckLeases] and [CheckDurable] anywhere else; and [Race], which lets real processes contend
//   - broken stores that prove that the suites can fail: [NoCompareAndSet], [OverwritingPut], …
//   - clocks for tests: [ManualClock] and [TrippingClock]
//   - stores with faults: [FaultyLeases] and [FaultyDurable] wrap any store and let a test decide,
//     call by call, what goes wrong
//
// Everything is safe for concurrent use, and works inside a testing/synctest bubble: what waits,
// waits with timers and channels made inside it.
//
// # Start here
//
// A binding's own test is one line for each suite; see the examples. A test of something that uses a
// store wraps the store with [NewFaultyLeases] or [NewFaultyDurable] and plans a fault, such as
// FailNext, before the step that has to survive it.
package storetest
