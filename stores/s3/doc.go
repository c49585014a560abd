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
// # Renewals
//
// Renewals of many leases stand in one object, the renewal log of their holder's process (a few logs, if it holds more than
// 4,096 leases). The newest entry of a record names a log, which is there before, and a member number in it; from then on,
// until the record is written again, the lease is renewed by a replacement of the log: one conditional PUT renews any number
// of its members. Whoever takes a lease first revokes the member, by a PUT that is conditional on the version of the log in
// which the renewal was found to be over, and then replaces the record, on the condition of the version that was read before
// the log: a renewal in between, by either way, makes one of the two fail. A renewal that the log cannot take goes by the
// record, which then names another member. The takeover of a dead process's leases costs one revocation: the first one closes
// its log. The rules, and why, are in docs/decisions/0031-renewal-logs-in-a-bucket.md; internal/model explores them exhaustively.
//
// # When is a lease over?
//
// S3 shows its clock in two headers of one second resolution, Date and Last-Modified, and decides
// nothing by it. So a lease is never granted because two estimated clocks say so. A record holds a
// span: how long, from the sending of the request that wrote it, its lease stands. So does each renewal in a log. Anyone may
// take the lease when one of four things proves that the span of the record has passed, and one that that of the newest
// renewal has:
//
//   - released: the span is zero.
//   - own: this very Leases sent that version, and the span has passed on its monotonic clock since.
//   - observed: this Leases has seen that very record, or renewal, for the span, on its monotonic clock, counted
//     from the first ANSWER that showed it. It was sent before it could be shown, so the span
//     counted from its sending is over too. This needs no clock of the server at all.
//   - age: one answer to one read says Date and Last-Modified. At that instant the server's clock was at
//     or after Date, and the version was written, and so sent, before Last-Modified + 1 s. So its age is more than
//     Date − Last-Modified − 1 s; the lease is over if that is at least the span + ClockSkew. A server that
//     caches its Date header for a while (those built on fasthttp do, for a second) makes this later,
//     never earlier.
//
// The writes that take the lease are conditional on those same versions, so a renewal that arrives in
// between wins, and one that arrives later fails. What is assumed: the monotonic clocks of nodes run at
// one rate (as everywhere in the protocol); and for the last proof, that the clock behind Date is never
// ahead of the one behind Last-Modified by more than ClockSkew (1 s), a clock set forward between the
// two included. A negative ClockSkew turns that proof off.
//
// The bounds: a lease is never over early. It is over late by the time from its last renewal to the
// first look at it by a contender, or, if its process renews nothing else, by 2 s + ClockSkew (+ 1 s with a cached Date),
// whichever is LESS. So who
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
// <prefix>leases/*, <prefix>renewals/* and <prefix>deployment/*, and deny s3:PutObject there unless s3:if-match or s3:if-none-match is present.
//
// # Costs
//
// Requests: a renewal, of any number of the leases of one log, is one PUT, and one more for each 64; its object holds some
// bytes per lease: 20 KB and more for thousands that are renewed in many groups. An acquire is two GETs and one PUT, a LIST
// more for a key that was never acquired, and a PUT more where a member has to be revoked. A GET of the record is
// repeated where a log that was replaced since shows no renewal of the lease, which the log may have left out. A release or a forget is one PUT
// (of about 4 KB), and one more for each 16 entries of the record's trail. A refused acquire, and a read, are two GETs. At
// 0.005 USD per 1,000 PUTs a process that renews on 8 beats every 3 s costs about 35 USD a month, with 100 leases or with
// 4,000; every 30 s 3.50 USD. (One lease is renewed on one beat: 4.50 USD.) Each start takes about 10 requests for the checks
// and up to 100 for the clock. A put of an object is one PUT, or for a large one a HEAD and n + 2 requests.
//
// The trails grow without end unless lifecycle rules of the bucket expire <prefix>trail/ and <prefix>renewal-trail/, and
// <prefix>renewals/ after, say, 90 days: a log that is still written is never old. A rule that aborts incomplete multipart
// uploads is good to have as well; [Objects.AbortLeftovers] does the same.
//
// # Layout
//
// Below the prefix: objects/<key>, leases/<org>/<tenant>, trail/<org>/<tenant>/<first>-<last>, renewals/<log>,
// renewal-trail/<log>/<first>-<last>, deployment/identity.json, probe/.
//
// # Start here
//
// [Open] a bucket; [Bucket.Objects] is a stores.DurableStore, and [Bucket.Leases] a stores.LeaseStore,
// stores.BatchRenewer and stores.LeaseLister.
package s3
