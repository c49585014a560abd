package storetest

import (
	"context"
	"time"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

// Op names a method of a store.
type Op string

// The operations of a lease store, and of a durable store. OpAny stands for all of them where a rule
// asks for an Op.
const (
	OpAny Op = ""

	OpRead      Op = "Read"
	OpAcquire   Op = "Acquire"
	OpRenew     Op = "Renew"
	OpRenewMany Op = "RenewMany"
	OpRelease   Op = "Release"
	OpForget    Op = "MarkForgotten"
	OpLineage   Op = "MarkLineage"
	OpHistory   Op = "History"
	OpLeases    Op = "Leases"
	OpForgotten Op = "Forgotten"

	OpDeployment    Op = "Deployment"
	OpSetDeployment Op = "SetDeployment"
	OpReseed        Op = "Reseed"

	OpPut          Op = "PutIfAbsent"
	OpGet          Op = "Get"
	OpList         Op = "List"
	OpDelete       Op = "Delete"
	OpDeletePrefix Op = "DeletePrefix"
)

// Call is one call of a store: the operation and its arguments.
type Call struct {
	// Seq numbers the calls of one wrapper from 1.
	Seq uint64
	Op  Op
	// Key is the lease key as text, the object's key, or the prefix of List and DeletePrefix, or the
	// key after which Leases and Forgotten begin, or the identity of SetDeployment.
	Key   string
	Owner string
	Epoch uint64
	TTL   time.Duration
	// Renewals are those of RenewMany. Not to be changed.
	Renewals []stores.Renewal
	// Data are the bytes of a put. Not to be changed, nor kept after the call.
	Data  []byte
	Limit int

	lease messages.Key
}

// Result is the answer to a call: what the method returned.
type Result struct {
	Err error
	// OK is the boolean of Read and Get (found), PutIfAbsent (created) and Delete (deleted).
	OK       bool
	Lease    messages.Lease
	Entries  []messages.LeaseEntry
	Renewals []stores.RenewalResult
	Leases   []messages.Lease
	Data     []byte
	Keys     []string
	Identity string
	Count    int
}

// Phase is a point in the life of a call that an observer sees.
type Phase string

// The phases. A call has one Called and one Answered. It has one Took if it reached the store: before Answered, or
// after it if the effect was late, or never.
const (
	Called   Phase = "called"   // before anything happened
	Took     Phase = "took"     // the real store has answered; Result is its answer
	Answered Phase = "answered" // Result is what the caller gets
)

// Event is what an observer sees of a call.
type Event struct {
	Phase  Phase
	Call   Call
	Result Result
}

// Effect says whether and when a call reaches the real store.
type Effect int

// The effects.
const (
	EffectNow  Effect = iota // before the answer, as it should
	EffectNone               // never
	EffectLate               // after the answer, on its own
)

// Action is what happens to one call. The zero Action lets it pass. The steps are, in this order:
// Delay, Gate, Effect, AnswerDelay, Hang, answer. A caller whose context ends during a step gets
// CodeUnavailable at once; if that was before an EffectNow, there is none.
type Action struct {
	// Delay is waited for before the effect.
	Delay time.Duration
	// Gate, if not nil, is waited for until it is closed, before the effect.
	Gate <-chan struct{}
	// Effect says whether and when the call reaches the real store.
	Effect Effect
	// After is how long after the answer's decision an EffectLate comes; below 0: not before
	// ReleaseLate, and never after DropLate.
	After time.Duration
	// AnswerDelay is waited for after the effect.
	AnswerDelay time.Duration
	// Hang keeps the answer back until the caller's context ends.
	Hang bool
	// Err is the answer in place of the real one; nil: the real one, or CodeUnavailable without EffectNow.
	Err error
}

// Pass lets a call through.
func Pass() Action { return Action{} }

// Fail answers err (nil: CodeUnavailable), and the call has no effect.
func Fail(err error) Action { return Action{Effect: EffectNone, Err: err} }

// LoseAnswer lets the call take effect, and answers err (nil: CodeUnavailable) all the same.
func LoseAnswer(err error) Action { return Action{Err: orUnavailable(err)} }

// FailLate answers err (nil: CodeUnavailable) at once; the call takes effect after d, whatever
// becomes of the caller's context. Below 0: when ReleaseLate is called.
func FailLate(err error, d time.Duration) Action {
	return Action{Effect: EffectLate, After: d, Err: err}
}

// Delay holds the call up for d before it takes effect.
func Delay(d time.Duration) Action { return Action{Delay: d} }

// DelayAnswer holds the answer up for d after the effect.
func DelayAnswer(d time.Duration) Action { return Action{AnswerDelay: d} }

// Hang never answers, and has no effect: the caller waits until its context ends.
func Hang() Action { return Action{Effect: EffectNone, Hang: true} }

// HangLate is Hang for a call that takes effect d after it was made (below 0: see FailLate).
func HangLate(d time.Duration) Action { return Action{Effect: EffectLate, After: d, Hang: true} }

func orUnavailable(err error) error {
	if err == nil {
		return &messages.Error{Code: messages.CodeUnavailable, Message: "planned fault"}
	}
	return err
}

func timedOut(ctx context.Context) error {
	return &messages.Error{Code: messages.CodeUnavailable, Cause: messages.CodeOf(ctx.Err()), Message: "planned fault: no answer in time", Err: context.Cause(ctx)}
}
