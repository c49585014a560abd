package api

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/leasehold/leasehold/messages"
)

// Doer carries out a request: on this node (*actors.Node), or at whichever member of a cluster owns the
// tenant. Failures are in the reply. The deadline is that of ctx; Request.TimeoutMS is the Doer's to fill in.
type Doer interface {
	Do(ctx context.Context, req *messages.Request) *messages.Reply
}

// The headers of an answer that say which state of the tenant it comes from. One that is not known is
// left out; an owner id is left out too if it is not plain ASCII.
const (
	EpochHeader = "Leasehold-Epoch"
	SeqHeader   = "Leasehold-Seq"
	OwnerHeader = "Leasehold-Owner"
)

// SeenHeader is the header in which a client says what it has seen, as EPOCH/SEQ: what EpochHeader and SeqHeader
// told it last. No older state answers it.
const SeenHeader = "Leasehold-Seen"

// IdempotencyHeader is the header in which a client may send the idempotency key of a command, or of a single
// event, instead of in the event.
const IdempotencyHeader = "Idempotency-Key"

// do has a request carried out. The headers of the answer are set, whatever becomes of it; an error of
// the reply is the error of do.
func (s *Server) do(w http.ResponseWriter, r *http.Request, req *messages.Request) (*messages.Reply, error) {
	var err error
	if req.Key, err = keyOf(r); err != nil {
		return nil, err
	}
	if req.Seen, err = seen(r.Header); err != nil {
		return nil, err
	}
	req.Version = messages.WireVersion
	// What no node would carry out is not sent to another one to be told so.
	if err := req.Validate(); err != nil {
		return nil, err
	}
	done := s.cfg.Tenants.Do(r.Context(), req)
	stateHeaders(w.Header(), done.Owner, done.Epoch, done.Seq)
	switch {
	case done.Error == nil:
		return done, incomplete(req, done)
	case done.Error.Code == messages.CodeNotOwner && done.Error.Owner == "" && s.alone():
		return nil, s.notOwner(r.Context(), req.Key, done.Error)
	}
	return nil, done.Error
}

// alone reports whether nobody but this node is asked.
func (s *Server) alone() bool { return s.cfg.Tenants == Doer(s.cfg.Node) }

// notOwner adds who holds the tenant to a refusal of this node, as far as the lease store tells.
func (s *Server) notOwner(ctx context.Context, key messages.Key, refused *messages.Error) error {
	lease, known, err := s.cfg.Leases.Read(ctx, key)
	if err != nil {
		return err
	}
	named := *refused
	if known && lease.Owner != s.cfg.Node.Owner() {
		named.Owner, named.Epoch = lease.Owner, lease.Epoch
	}
	return &named
}

// incomplete returns an error for a reply without what was asked for: it comes from a node of another
// version.
func incomplete(req *messages.Request, done *messages.Reply) error {
	code := messages.CodeUnknownOutcome
	switch {
	case req.Action == messages.ActionAppend && len(done.Appended) != len(req.Events):
	case req.Action == messages.ActionSnapshot && done.Manifest == nil:
	case req.Action == messages.ActionQuery && done.Result == nil:
		code = messages.CodeInternal
	default:
		return nil
	}
	return &messages.Error{Code: code, Key: req.Key.String(), Epoch: done.Epoch, Message: "the owner's answer is not complete"}
}

// stateHeaders tells the state that an answer comes from.
func stateHeaders(header http.Header, owner string, epoch uint64, seq int64) {
	if epoch == 0 {
		return // whoever answered has not opened the tenant
	}
	header.Set(EpochHeader, strconv.FormatUint(epoch, 10))
	if seq > 0 {
		header.Set(SeqHeader, strconv.FormatInt(seq, 10))
	}
	if owner != "" && plainASCII(owner) {
		header.Set(OwnerHeader, owner)
	}
}

func plainASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// seen reads SeenHeader. There is one way to write a state, so that nothing is taken for another one.
func seen(header http.Header) (messages.Seen, error) {
	values := header.Values(SeenHeader)
	switch len(values) {
	case 0:
		return messages.Seen{}, nil
	case 1:
	default:
		return messages.Seen{}, invalid(SeenHeader + " is given more than once")
	}
	before, after, _ := strings.Cut(values[0], "/")
	epoch, badEpoch := strconv.ParseUint(before, 10, 64)
	seq, badSeq := strconv.ParseInt(after, 10, 64)
	state := messages.Seen{Epoch: epoch, Seq: seq}
	if badEpoch != nil || badSeq != nil || epoch == 0 || seq < 0 || fmt.Sprintf("%d/%d", epoch, seq) != values[0] {
		return messages.Seen{}, invalid(SeenHeader + " must be EPOCH/SEQ, such as 3/17")
	}
	return state, nil
}

// idempotencyKey reads IdempotencyHeader; "" if it is not there.
func idempotencyKey(header http.Header) (string, error) {
	keys := header.Values(IdempotencyHeader)
	switch {
	case len(keys) == 0:
		return "", nil
	case len(keys) > 1 || keys[0] == "":
		return "", invalid(IdempotencyHeader + " is given more than once, or empty")
	}
	return keys[0], nil
}
