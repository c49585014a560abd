// Package dir keeps durable objects as files below one directory: the embedded default of Leasehold,
// for any number of processes on one machine.
//
// # Guarantees
//
// An object is written to a temporary file in the hidden directory .tmp, synced, and then linked to
// its name with link(2), which fails if the name exists: so of any number of concurrent puts one
// creates the object, and no reader ever sees a part of it. Then every directory from the object up
// to the root is synced, because a directory on the way may be new. A put that reported success
// survives a power cut; one that was cut off left nothing under a key.
//
// # Layout
//
// The key "a/b/c.db" is the file <root>/a/b/c.db. A key cannot be an object and a folder at once
// ("a" beside "a/b"): the second put is refused with CodeOutOfRange. Empty folders are removed
// with their last object. Names that begin with a dot are never keys.
//
// # Errors
//
// CodeStorage: the disk failed or is full, and the operation had no visible effect. CodeUnavailable:
// the context ended, or the disk failed after the object became visible (Cause CodeStorage): the
// operation may or may not have taken effect. Put it again, or read it back.
//
// # Start here
//
// [Open] a store, and use it as a stores.DurableStore.
package dir
