package api

import (
	"encoding/json"
	"net/http"

	"github.com/leasehold/leasehold/messages"
)

type queryRequest struct {
	SQL  string            `json:"sql"`
	Args []json.RawMessage `json:"args"`
}

// check refuses a statement that is missing, and arguments that SQLite cannot hold.
func (q queryRequest) check() error {
	if q.SQL == "" {
		return invalid("sql is empty")
	}
	for _, raw := range q.Args {
		if _, err := messages.DecodeValue(raw); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) query(w http.ResponseWriter, r *http.Request) error {
	if _, err := keyOf(r); err != nil {
		return err
	}
	var request queryRequest
	if err := s.bodyInto(w, r, &request); err != nil {
		return err
	}
	if err := request.check(); err != nil {
		return err
	}
	done, err := s.do(w, r, &messages.Request{Action: messages.ActionQuery, SQL: request.SQL, Args: request.Args})
	if err != nil {
		return err
	}
	reply(w, http.StatusOK, done.Result)
	return nil
}

// commanded answers a command. Duplicate says that the output is that of the first call with this
// idempotency key.
type commanded struct {
	Epoch     uint64          `json:"epoch"`
	Output    json.RawMessage `json:"output"`
	Duplicate bool            `json:"duplicate,omitempty"`
}

func (s *Server) command(w http.ResponseWriter, r *http.Request) error {
	if _, err := keyOf(r); err != nil {
		return err
	}
	key, err := idempotencyKey(r.Header)
	if err != nil {
		return err
	}
	if err := messages.ValidateIdemKey(key); err != nil {
		return err
	}
	var in json.RawMessage
	if err := s.bodyInto(w, r, &in); err != nil {
		return err
	}
	done, err := s.do(w, r, &messages.Request{Action: messages.ActionCall, Command: r.PathValue("name"), IdemKey: key, Input: in})
	if err != nil {
		return err
	}
	out := commanded{Epoch: done.Epoch, Output: done.Output, Duplicate: done.Duplicate}
	if len(out.Output) == 0 {
		out.Output = json.RawMessage("null")
	}
	reply(w, http.StatusOK, out)
	return nil
}
