// Package api is the HTTP/JSON interface of a node: the same operations as actors.Tenant, for
// programs in other languages, with the same error codes.
//
// [New] returns a [Server], an http.Handler. openapi.yaml, which it serves at /openapi.yaml,
// describes every route; a test holds the two together.
//
// What is asked of a tenant goes through Config.Tenants, a [Doer]: the node itself, or the member of a cluster, which
// forwards it to the owner. The headers of an answer tell the state that it comes from ([EpochHeader],
// [SeqHeader], [OwnerHeader]); a client that sends it back ([SeenHeader]) is never answered from an older one.
//
// # Errors
//
// Every error is one JSON document, a messages.Error: {"code": "held", "message": "…", …}. The code
// is what a program looks at; the HTTP status follows from it ([Status]):
//
//	400 invalid_id, invalid_argument, out_of_range, read_only, sql
//	401 unauthorized (403 for a request that a web page of another site may have sent)
//	404 not_found (405 for a known path with another method)
//	408 deadline_exceeded: nothing was done
//	409 held, lost, fenced, history_lost, idempotency_conflict: nothing was done
//	413 too_large
//	415 invalid_argument, for a body that is not application/json
//	421 not_owner: see Owner
//	422 command_failed
//	429 overloaded: nothing was done, see Retry-After
//	499 canceled: nothing was done, and nobody reads this
//	500 internal, panic, corrupt, lineage_ahead, deployment_mismatch
//	503 unavailable, lineage_missing, draining (see Owner), closed, unsaved_limit (of writes): see Retry-After
//	504 unknown_outcome: the work may or may not stand; retry with its idempotency key
//	507 storage
//
// A request that is not HTTP at all is answered by net/http in plain text (400, 431).
package api
