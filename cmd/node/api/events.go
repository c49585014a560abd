package api

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

// appendRequest is one event, or several under "events".
type appendRequest struct {
	messages.Event
	Events []messages.Event `json:"events"`
}

// appended answers an append: Events has the places in the order of the request.
type appended struct {
	Epoch  uint64              `json:"epoch"`
	Events []messages.Appended `json:"events"`
}

// IdempotencyHeader is the header in which a client may send the idempotency key of a single event,
// instead of in the event.
const IdempotencyHeader = "Idempotency-Key"

// list returns the events of a request.
func (a appendRequest) list(header http.Header) ([]messages.Event, error) {
	single := a.Kind != "" || a.Actor != "" || a.SubjectID != "" || a.RunID != "" || a.IdemKey != "" || a.Payload != nil || !a.Time.IsZero()
	keys := header.Values(IdempotencyHeader)
	if a.Events != nil {
		switch {
		case single:
			return nil, invalid("the body is one event or has events, not both")
		case len(keys) > 0:
			return nil, invalid(IdempotencyHeader + " goes with a single event; give each of several its idem_key")
		case len(a.Events) == 0:
			return nil, invalid("events is empty")
		case len(a.Events) > messages.MaxBatchEvents:
			return nil, &messages.Error{Code: messages.CodeTooLarge, Message: "more than " + strconv.Itoa(messages.MaxBatchEvents) + " events in one append"}
		}
		return a.Events, nil
	}
	switch {
	case len(keys) > 1 || (len(keys) == 1 && keys[0] == ""):
		return nil, invalid(IdempotencyHeader + " is given more than once, or empty")
	case len(keys) == 1 && a.IdemKey != "" && a.IdemKey != keys[0]:
		return nil, invalid(IdempotencyHeader + " and idem_key differ")
	case len(keys) == 1:
		a.IdemKey = keys[0]
	}
	return []messages.Event{a.Event}, nil
}

// tenant opens a tenant, or finds it open.
func (s *Server) tenant(r *http.Request) (*actors.Tenant, error) {
	key, err := keyOf(r)
	if err != nil {
		return nil, err
	}
	return s.cfg.Node.Tenant(r.Context(), key.Org, key.Tenant)
}

func (s *Server) appendEvents(w http.ResponseWriter, r *http.Request) error {
	if _, err := keyOf(r); err != nil {
		return err
	}
	var request appendRequest
	if err := s.bodyInto(w, r, &request); err != nil {
		return err
	}
	events, err := request.list(r.Header)
	if err != nil {
		return err
	}
	for _, e := range events {
		if err := e.Validate(); err != nil {
			return err
		}
	}
	t, err := s.tenant(r)
	if err != nil {
		return err
	}
	places, epoch, err := t.AppendAt(r.Context(), events)
	if err != nil {
		return err
	}
	reply(w, http.StatusOK, appended{Epoch: epoch, Events: places})
	return nil
}

// page is one page of events. The next one begins after Next.
type page struct {
	Events []messages.StoredEvent `json:"events"`
	More   bool                   `json:"more"`
	Next   int64                  `json:"next"`
}

// defaultPage is the size of a page whose request names none.
const defaultPage = 100

func (s *Server) readEvents(w http.ResponseWriter, r *http.Request) error {
	if err := checkQuery(r, "after", "limit"); err != nil {
		return err
	}
	after, err := number(r, "after", 0, 0)
	if err != nil {
		return err
	}
	limit, err := number(r, "limit", defaultPage, 1)
	if err != nil {
		return err
	}
	t, err := s.tenant(r)
	if err != nil {
		return err
	}
	// A page beyond the node's limit is a page of the node's limit: More says so.
	events, more, err := t.Events(r.Context(), after, int(min(limit, 1<<31-1)))
	if err != nil {
		return err
	}
	p := page{Events: events, More: more, Next: after}
	if len(events) == 0 {
		p.Events = []messages.StoredEvent{}
	} else {
		p.Next = events[len(events)-1].Seq
	}
	reply(w, http.StatusOK, p)
	return nil
}

func number(r *http.Request, name string, otherwise, least int64) (int64, error) {
	query := r.URL.Query()
	if !query.Has(name) {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(query.Get(name), 10, 64)
	if err != nil || n < least {
		return 0, invalid(name + " must be a whole number from " + strconv.FormatInt(least, 10))
	}
	return n, nil
}

type queryRequest struct {
	SQL  string            `json:"sql"`
	Args []json.RawMessage `json:"args"`
}

// arguments are the values for the placeholders of a statement. JSON has no bytes: they are given as
// {"base64": "…"}.
func (q queryRequest) arguments() ([]any, error) {
	args := make([]any, len(q.Args))
	for i, raw := range q.Args {
		value, err := argument(raw)
		if err != nil {
			return nil, err
		}
		args[i] = value
	}
	return args, nil
}

func argument(raw json.RawMessage) (any, error) {
	var value any
	if err := decode(raw, &value); err != nil {
		return nil, err
	}
	switch v := value.(type) {
	case nil, bool, string:
		return v, nil
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n, nil
		}
		if f, err := v.Float64(); err == nil {
			return f, nil
		}
		return nil, invalid("an argument is a number that SQLite cannot hold")
	case map[string]any:
		var blob struct {
			Base64 *[]byte `json:"base64"`
		}
		if err := decode(raw, &blob); err == nil && blob.Base64 != nil {
			return *blob.Base64, nil
		}
	}
	return nil, invalid(`an argument must be null, a boolean, a number, a string or {"base64": "…"}`)
}

func (s *Server) query(w http.ResponseWriter, r *http.Request) error {
	if _, err := keyOf(r); err != nil {
		return err
	}
	var request queryRequest
	if err := s.bodyInto(w, r, &request); err != nil {
		return err
	}
	if request.SQL == "" {
		return invalid("sql is empty")
	}
	args, err := request.arguments()
	if err != nil {
		return err
	}
	t, err := s.tenant(r)
	if err != nil {
		return err
	}
	result, err := t.Query(r.Context(), request.SQL, args...)
	if err != nil {
		return err
	}
	out := ledgeractor.Result{Columns: result.Columns, Rows: result.Rows, Truncated: result.Truncated}
	if out.Rows == nil {
		out.Rows = [][]any{}
	}
	if out.Columns == nil {
		out.Columns = []string{}
	}
	reply(w, http.StatusOK, out)
	return nil
}

// commanded answers a command.
type commanded struct {
	Epoch  uint64          `json:"epoch"`
	Output json.RawMessage `json:"output"`
}

func (s *Server) command(w http.ResponseWriter, r *http.Request) error {
	if _, err := keyOf(r); err != nil {
		return err
	}
	var in json.RawMessage
	if err := s.bodyInto(w, r, &in); err != nil {
		return err
	}
	t, err := s.tenant(r)
	if err != nil {
		return err
	}
	out, epoch, err := t.CallAt(r.Context(), r.PathValue("name"), in)
	if err != nil {
		return err
	}
	if len(out) == 0 {
		out = json.RawMessage("null")
	}
	reply(w, http.StatusOK, commanded{Epoch: epoch, Output: out})
	return nil
}
