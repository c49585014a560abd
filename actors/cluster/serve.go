package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/leasehold/leasehold/messages"
)

// answerable reports whether a message names a place for its answer that is somebody's inbox. Whoever may send
// requests must not have a member publish for him where he may not himself: to a stream of the stores, or to the
// members.
func answerable(msg *natsgo.Msg) bool {
	return msg.Reply != "" && !strings.HasPrefix(msg.Reply, "$") && !strings.HasPrefix(msg.Reply, "leasehold.")
}

// heardRequest takes a request from the subscription, and never holds it up.
func (m *Member) heardRequest(msg *natsgo.Msg, direct bool) {
	if !answerable(msg) {
		return
	}
	size := int64(len(msg.Data))
	if n := m.inFlight.Add(1); n > int64(m.cfg.MaxRequests) {
		m.inFlight.Add(-1)
		m.reply(msg, nil, m.refuse(&messages.Error{Code: messages.CodeOverloaded, RetryAfter: 100 * time.Millisecond, Message: "too many requests on this member"}))
		return
	}
	if err := m.node.Intake().Take(size); err != nil {
		m.inFlight.Add(-1)
		m.reply(msg, nil, m.refuse(messages.AsError(err)))
		return
	}
	done := func() { m.inFlight.Add(-1); m.node.Intake().Give(size) }
	taken := m.work.start(func() {
		defer done()
		req := &messages.Request{}
		m.reply(msg, req, m.serve(msg.Data, req, direct))
	})
	if !taken {
		done()
		m.reply(msg, nil, m.refuse(&messages.Error{Code: messages.CodeClosed, Message: "the member has left; nothing was done"}))
	}
}

func (m *Member) serve(data []byte, req *messages.Request, direct bool) (reply *messages.Reply) {
	defer func() {
		if p := recover(); p != nil {
			m.untrusted.Error("a request panicked", "panic", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
			// It may have been carried out before.
			reply = m.refuse(messages.Unknown(req.Key, 0, &messages.Error{Code: messages.CodeInternal, Message: "a bug in Leasehold; the log has the stack"}))
		}
	}()
	if err := m.node.Intake().Decode(m.life, len(data), func() error { return decodeRequest(data, req) }); err != nil {
		return m.refuse(messages.AsError(err))
	}
	if req.TimeoutMS <= 0 {
		return m.refuse(&messages.Error{Code: messages.CodeDeadlineExceeded, Message: "the request came without time left"})
	}
	ctx, cancel := context.WithTimeout(m.life, min(req.Timeout(), m.cfg.MaxTimeout))
	defer cancel()
	if !direct {
		return m.answerAny(ctx, req)
	}
	return m.answer(ctx, req)
}

func decodeRequest(data []byte, req *messages.Request) error {
	if err := messages.CheckValues(data, messages.MaxRequestValues); err != nil {
		return err
	}
	// What a decoder would change must not get by as something else: two keys with broken UTF-8 would be one.
	if err := messages.CheckText(data, messages.MaxDocumentDepth); err != nil {
		return err
	}
	if err := json.Unmarshal(data, req); err != nil {
		return &messages.Error{Code: messages.CodeInvalidArgument, Message: "the request is not a document of this protocol"}
	}
	return nil
}

// reply sends an answer.
func (m *Member) reply(msg *natsgo.Msg, req *messages.Request, reply *messages.Reply) {
	data, err := fit(int(m.conn.MaxPayload()), req, reply)
	if err == nil {
		err = msg.Respond(data)
	}
	if err != nil {
		m.log.Debug("an answer could not be sent", "error", err)
	}
}

// fit writes an answer. One that is too large for a message becomes a refusal: of a page of events, half
// of it is sent instead. A refusal loses its text, and says the same without it.
func fit(limit int, req *messages.Request, reply *messages.Reply) ([]byte, error) {
	for {
		data, err := messages.EncodeWire(reply)
		crowded := err == nil && len(data) <= limit && messages.CheckValues(data, messages.MaxReplyValues) != nil
		switch {
		case err == nil && len(data) <= limit && !crowded:
			return data, nil
		case reply.Error != nil && reply.Error.Message == "":
			return data, err // the server has the last word
		case reply.Error != nil:
			bare := *reply.Error
			bare.Message = ""
			reply = &messages.Reply{Owner: reply.Owner, Epoch: reply.Epoch, Seq: reply.Seq, Error: &bare}
		case err != nil:
			reply = tooMuch(req, reply, &messages.Error{Code: messages.CodeInternal, Message: "the answer cannot be written as JSON"})
		case len(reply.Events) > 1:
			half := *reply
			half.Events, half.More = reply.Events[:len(reply.Events)/2], true
			reply = &half
		case crowded:
			reply = tooMuch(req, reply, &messages.Error{Code: messages.CodeTooLarge,
				Message: fmt.Sprintf("the answer has more than %d values", messages.MaxReplyValues)})
		default:
			reply = tooMuch(req, reply, &messages.Error{Code: messages.CodeTooLarge,
				Message: fmt.Sprintf("the answer is over the %d bytes that a NATS message may have", limit)})
		}
	}
}

// tooMuch is the answer in place of one that cannot be sent. What was done stands.
func tooMuch(req *messages.Request, reply *messages.Reply, why *messages.Error) *messages.Reply {
	if req != nil && reply.Error == nil && (req.Action == messages.ActionAppend || req.Action == messages.ActionCall || req.Action == messages.ActionSnapshot) {
		why = messages.Unknown(req.Key, reply.Epoch, why)
		why.Message = "the work stands, but its answer cannot be sent"
	}
	return &messages.Reply{Owner: reply.Owner, Epoch: reply.Epoch, Seq: reply.Seq, Error: why}
}
