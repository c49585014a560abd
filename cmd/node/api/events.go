package api

import (
	"net/http"
	"strconv"

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

// list returns the events of a request.
func (a appendRequest) list(header http.Header) ([]messages.Event, error) {
	single := a.Kind != "" || a.Actor != "" || a.SubjectID != "" || a.RunID != "" || a.IdemKey != "" || a.Payload != nil || a.Time != nil
	if a.Events != nil {
		switch {
		case single:
			return nil, invalid("the body is one event or has events, not both")
		case len(header.Values(IdempotencyHeader)) > 0:
			return nil, invalid(IdempotencyHeader + " goes with a single event; give each of several its idem_key")
		case len(a.Events) == 0:
			return nil, invalid("events is empty")
		case len(a.Events) > messages.MaxBatchEvents:
			return nil, &messages.Error{Code: messages.CodeTooLarge, Message: "more than " + strconv.Itoa(messages.MaxBatchEvents) + " events in one append"}
		}
		return a.Events, nil
	}
	key, err := idempotencyKey(header)
	switch {
	case err != nil:
		return nil, err
	case key != "" && a.IdemKey != "" && a.IdemKey != key:
		return nil, invalid(IdempotencyHeader + " and idem_key differ")
	case key != "":
		a.IdemKey = key
	}
	return []messages.Event{a.Event}, nil
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
	done, err := s.do(w, r, &messages.Request{Action: messages.ActionAppend, Events: events})
	if err != nil {
		return err
	}
	reply(w, http.StatusOK, appended{Epoch: done.Epoch, Events: done.Appended})
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
	// A page beyond the node's limit is a page of the node's limit: More says so.
	done, err := s.do(w, r, &messages.Request{Action: messages.ActionEvents, After: after, Limit: int(min(limit, 1<<31-1))})
	if err != nil {
		return err
	}
	p := page{Events: done.Events, More: done.More, Next: after}
	if len(p.Events) == 0 {
		p.Events = []messages.StoredEvent{}
	} else {
		p.Next = p.Events[len(p.Events)-1].Seq
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
