package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/nats/natsconn"
)

// NATSConfig says how to reach a cluster over NATS. Only URL is needed.
type NATSConfig struct {
	natsconn.Config
	// Cluster is the name of the Leasehold cluster, [A-Za-z0-9_-]{1,32}; "": DefaultCluster.
	Cluster string
	// Client says how patient the client is. If only one of Client.Log and Log is set, it is for both.
	Client Config
}

// Dial connects to a cluster over NATS. It asks no member: a cluster of which no member runs yet is
// waited for by the first requests. Close ends the connection. The errors: CodeInvalidArgument for a config or
// files that cannot be used, CodeUnauthorized for credentials that the server refuses, CodeUnavailable if no
// server answers.
func Dial(ctx context.Context, cfg NATSConfig) (*Client, error) {
	if cfg.Log == nil {
		cfg.Log = cfg.Client.Log
	}
	if cfg.Client.Log == nil {
		cfg.Client.Log = cfg.Log
	}
	if _, err := NewSubjects(cfg.Cluster); err != nil {
		return nil, err
	}
	if _, err := cfg.Client.withDefaults(); err != nil {
		return nil, err
	}
	conn, err := cfg.Connect(ctx)
	if errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) || errors.Is(err, nats.ErrAuthRevoked) {
		return nil, &messages.Error{Code: messages.CodeUnauthorized, Cause: messages.CodeOf(err), Message: "the NATS server refuses the credentials", Err: err}
	}
	if err != nil {
		return nil, err
	}
	transport, err := newNATS(conn, cfg.Cluster)
	if err != nil {
		conn.Close()
		return nil, err
	}
	c, err := New(transport, cfg.Client)
	if err != nil {
		conn.Close()
		return nil, err
	}
	c.closing = func() error {
		conn.Close()
		transport.watching.Wait()
		return nil
	}
	return c, nil
}

// NewNATS returns a Transport over a connection that exists, for a cluster ("": DefaultCluster). The caller
// closes the connection, and that ends the transport. Make it with natsconn.Config.Connect, or else with
// nats.ReconnectBufSize(-1): a connection that keeps requests while it is broken, and sends them when nobody
// waits any more, is CodeInvalidArgument.
func NewNATS(conn *nats.Conn, cluster string) (Transport, error) { return newNATS(conn, cluster) }

func newNATS(conn *nats.Conn, cluster string) (*natsTransport, error) {
	subjects, err := NewSubjects(cluster)
	if err != nil {
		return nil, err
	}
	if conn == nil {
		return nil, invalid("a NATS transport needs a connection")
	}
	if conn.Opts.ReconnectBufSize >= 0 {
		return nil, invalid("the NATS connection must be made with ReconnectBufSize(-1)")
	}
	t := &natsTransport{conn: conn, subjects: subjects}
	t.session, t.broken = context.WithCancelCause(context.Background())
	changes := conn.StatusChanged(nats.RECONNECTING, nats.DISCONNECTED, nats.CLOSED)
	t.watching.Go(func() { t.watch(changes) })
	return t, nil
}

// natsTransport sends requests over a NATS connection.
type natsTransport struct {
	conn     *nats.Conn
	subjects Subjects
	watching sync.WaitGroup

	mu      sync.Mutex
	session context.Context // ends when the connection breaks: what was asked on it is not answered any more
	broken  context.CancelCauseFunc
}

var (
	errBroken = &messages.Error{Code: messages.CodeUnavailable, Message: "the connection to NATS broke before the answer"}
	errGone   = fmt.Errorf("%w: %w", ErrNotDelivered, nats.ErrConnectionClosed)
)

// watch ends the session whenever the connection breaks, and begins the next one. The client of NATS does
// not end a request by itself then.
func (t *natsTransport) watch(changes chan nats.Status) {
	defer t.conn.RemoveStatusListener(changes)
	for !t.conn.IsClosed() {
		<-changes // closed, if at all, together with the connection
		t.mu.Lock()
		t.broken(errBroken)
		t.session, t.broken = context.WithCancelCause(context.Background())
		t.mu.Unlock()
	}
}

func (t *natsTransport) currentSession() context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.session
}

// Send implements Transport: one message each way, in JSON.
func (t *natsTransport) Send(ctx context.Context, target string, req *messages.Request) (*messages.Reply, error) {
	data, err := messages.EncodeWire(req)
	if err != nil {
		return messages.Refuse(&messages.Error{Code: messages.CodeInvalidArgument, Key: req.Key.String(), Message: "the request cannot be written as JSON", Err: err}), nil
	}
	if limit := t.conn.MaxPayload(); limit > 0 && int64(len(data)) > limit {
		return t.tooLarge(req, len(data)), nil
	}
	// The session is taken first: a break after this line ends the request.
	session := t.currentSession()
	if t.conn.IsClosed() {
		return nil, errGone // only here: of a request that was under way, the same error says nothing
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(session, func() { cancel(errBroken) })()
	msg, err := t.conn.RequestMsgWithContext(ctx, &nats.Msg{Subject: t.subjects.to(target), Data: data})
	switch {
	case err == nil:
		return decodeReply(msg.Data)
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrConnectionDraining):
		return nil, fmt.Errorf("%w: %w", ErrNotDelivered, err)
	case errors.Is(err, nats.ErrMaxPayload):
		return t.tooLarge(req, len(data)), nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, &messages.Error{Code: messages.CodeUnavailable, Message: errBroken.Message, Err: err}
}

func (t *natsTransport) tooLarge(req *messages.Request, size int) *messages.Reply {
	return messages.Refuse(&messages.Error{Code: messages.CodeTooLarge, Key: req.Key.String(),
		Message: fmt.Sprintf("the request has %d bytes, the NATS server takes at most %d", size, t.conn.MaxPayload())})
}

// decodeReply reads a reply.
func decodeReply(data []byte) (reply *messages.Reply, err error) {
	if err = messages.CheckValues(data, messages.MaxReplyValues); err == nil { // an owner does not send more
		err = json.Unmarshal(data, &reply)
	}
	if err != nil {
		return nil, &messages.Error{Code: messages.CodeInternal, Message: "malformed reply: not a JSON document of ours", Err: err}
	}
	return reply, nil
}
