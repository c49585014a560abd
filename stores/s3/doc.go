// Package s3 keeps durable objects and leases in one bucket of any server that speaks the S3 API and
// honours conditional writes: all that a small deployment needs.
//
// # Durable objects
//
// A put carries If-None-Match: *, and a large one (above Config.PartSize) is a multipart upload whose
// completion carries it, so of any number of concurrent puts one creates the object and no reader sees
// a part of it. Each call marks its object with a number of its own in the metadata: if an answer is
// lost, the call sends the same bytes again, and "already there" is then settled by reading the mark
// (S10). What cannot be settled is CodeUnavailable, never a guess. Get verifies the SHA-256 that was
// stored with the object; an object without one (copied into the bucket by another tool) is read
// without that check.
//
// # Leases
//
// One object per key holds the record together with the newest entries of its audit trail; the record
// IS the last entry, so the two cannot disagree. It is replaced with If-Match (created with
// If-None-Match: *), and each version holds a random number, so no two versions have one ETag. Entries
// that no longer fit were copied to immutable overflow objects before the version without them is
// written; only entries of a written version are ever copied.
//
// # When is a lease over?
//
// S3 shows its clock in two headers of one second resolution, Date and Last-Modified, and decides
// nothing by it. So a lease is never granted because two estimated clocks say so. A record holds a
// span: how long, from the sending of the request that wrote it, its lease stands. Anyone may take
// the lease when one of four things proves that the span has passed:
//
//   - released: the span is zero.
//   - own: this very Leases sent that version, and the span has passed on its monotonic clock since.
//   - observed: this Leases has seen that very version for the span, on its monotonic clock, counted
//     from the first ANSWER that showed it. The version was sent before it could be shown, so the span
//     counted from its sending is over too. This needs no clock of the server at all.
//   - age: one answer to one read says Date and Last-Modified. At that instant the server's clock was at
//     or after Date, and the version was written, and so sent, before Last-Modified + 1 s. So its age is more than
//     Date − Last-Modified − 1 s; the lease is over if that is at least the span + ClockSkew. A server that
//     caches its Date header for a while (those built on fasthttp do, for a second) makes this later,
//     never earlier.
//
// The write that takes the lease is conditional on that same version, so a renewal that arrives in
// between wins, and one that arrives later fails. What is assumed: the monotonic clocks of nodes run at
// one rate (as everywhere in the protocol); and for the last proof, that the clock behind Date is never
// ahead of the one behind Last-Modified by more than ClockSkew (1 s), a clock set forward between the
// two included. A negative ClockSkew turns that proof off.
//
// The bounds: a lease is never over early. It is over late by the time from its last renewal to the
// first look at it by a contender, or by 2 s + ClockSkew (+ 1 s with a cached Date), whichever is LESS. So who
// wants to take over soon after a death looks several times in a ttl, and does not wait for the whole
// RetryAfter of the first answer: that is when there would be proof if nobody renews, and each renewal begins it anew. A
// holder's renew, release and forget are refused as soon as its span has passed since it SENT the last
// write, so the holder loses nothing by that lateness and gains nothing from it.
//
// Lease.End and the times in the audit trail decide nothing: they are an estimate of the server's clock.
// [Bucket.Leases] looks for the instant at which Last-Modified ticks, so it is within a few round trips of
// the truth; a sample each minute corrects it by at most 1 ms per second, so it does not jump, and
// is within a second ever after. (A clock that is found more than 2 s off is taken over at once.)
// Where the estimated end has passed but the proof is not there yet, Acquire waits for it for up to
// LeaseConfig.AcquireWait, and then answers held.
//
// # What the medium cannot do
//
// S3 has no triggers. The rules of B3 (epochs rise by one, floors do not fall, …) are checked by this package before
// each write and after each read, and a record that breaks them is CodeCorrupt, but the server would
// let another program break them, or delete a record. (A record that is missing although its overflow
// is there is CodeCorrupt as well.) A bucket policy can help: deny s3:DeleteObject on
// <prefix>leases/*, and deny s3:PutObject there unless s3:if-match or s3:if-none-match is present.
//
// There is no batch: 5,000 leases are 5,000 requests per interval. They run in parallel, bounded by
// Config.MaxRequests.
//
// # Costs
//
// Requests: a renewal is one PUT (of about 4 KB), and one more for each 16 entries of the trail; a
// release or forget the same; an acquire one GET and one PUT, and a LIST for a key that was never acquired; a
// refused one a GET; a read a GET. At 0.005 USD per 1,000 PUTs a lease that is renewed every 3 s costs about 4.60 USD
// a month, one that is renewed every 30 s 0.46 USD. Each start takes about 10 requests for the checks and up
// to 100 for the clock. A put of an object is one PUT, or for a large one a HEAD and n + 2 requests.
//
// The trail grows without end unless a lifecycle rule of the bucket expires <prefix>trail/. One that
// aborts incomplete multipart uploads is good to have as well; [Objects.AbortLeftovers] does the same.
//
// # Layout
//
// Below the prefix: objects/<key>, leases/<org>/<tenant>, trail/<org>/<tenant>/<first>-<last>, probe/.
//
// # Start here
//
// [Open] a bucket; [Bucket.Objects] is a stores.DurableStore, and [Bucket.Leases] a stores.LeaseStore
// and stores.LeaseLister.
package s3
