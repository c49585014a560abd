package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"

	"github.com/leasehold/leasehold/messages"
)

// body reads a request's body within the limit. A body that says that it is longer is refused
// without being read.
func (s *Server) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	tooLarge := func() error {
		w.Header().Set("Connection", "close") // else net/http would read on, to use the connection again
		return &messages.Error{Code: messages.CodeTooLarge, Message: fmt.Sprintf("the body is over %d bytes", s.cfg.MaxBody)}
	}
	if r.ContentLength > s.cfg.MaxBody {
		return nil, tooLarge()
	}
	in := &taken{from: http.MaxBytesReader(w, r.Body, s.cfg.MaxBody), answer: w.(*recorder)}
	data, err := io.ReadAll(in)
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, tooLarge()
	case errors.Is(err, messages.ErrOverloaded):
		hangUp(w)
		return nil, err
	case errors.Is(err, os.ErrDeadlineExceeded): // read_timeout; net/http ends the context with it, as if the client had gone
		hangUp(w)
		return nil, &messages.Error{Code: messages.CodeDeadlineExceeded, Message: "the body came too slowly; nothing was done", Err: err}
	case err != nil && r.Context().Err() != nil:
		return nil, messages.AsError(r.Context().Err())
	case err != nil:
		return nil, &messages.Error{Code: messages.CodeInvalidArgument, Message: "the body ended early", Err: err}
	}
	return data, nil
}

// taken takes room for a body as it comes in: a sender that stands still holds no more than it has sent.
type taken struct {
	from   io.Reader
	answer *recorder
}

func (t *taken) Read(p []byte) (int, error) {
	n, err := t.from.Read(p)
	if full := t.answer.take(n); full != nil {
		return 0, full
	}
	return n, err
}

// checkContentType wants JSON in UTF-8. Besides catching mistakes, this is what keeps web pages of other sites
// from posting here without a preflight.
func checkContentType(r *http.Request) error {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	charset, given := params["charset"]
	if err != nil || kind != "application/json" || (given && !strings.EqualFold(charset, "utf-8")) {
		return refusal{&messages.Error{Code: messages.CodeInvalidArgument, Message: "the content type must be application/json"},
			http.StatusUnsupportedMediaType}
	}
	return nil
}

// decode reads one JSON document into target and refuses everything that is not exactly that:
// unknown fields, a second document, text that JSON decoders disagree about.
func decode(body []byte, target any) error {
	if err := messages.CheckText(body, messages.MaxDocumentDepth); err != nil {
		return err
	}
	if _, whole := target.(*json.RawMessage); !whole {
		if err := messages.CheckValues(body, messages.MaxRequestValues); err != nil {
			return err
		}
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	d.UseNumber()
	if err := d.Decode(target); err != nil {
		return badJSON(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return invalid("something follows the JSON document")
	}
	return nil
}

// badJSON says what is wrong without quoting values, which may be personal.
func badJSON(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	message := "the body is not what this route takes"
	switch {
	case errors.Is(err, io.EOF):
		message = "the body is empty"
	case errors.Is(err, io.ErrUnexpectedEOF):
		message = "the JSON document is cut off"
	case errors.As(err, &syntax):
		message = fmt.Sprintf("the body is not JSON, at byte %d", syntax.Offset)
	case errors.As(err, &kind) && kind.Field == "":
		message = fmt.Sprintf("the body must be of type %s", jsonKind(kind.Type.Kind().String()))
	case errors.As(err, &kind):
		message = fmt.Sprintf("%s must be of type %s", clip(kind.Field), jsonKind(kind.Type.Kind().String()))
	case strings.HasPrefix(err.Error(), "json: unknown field "):
		message = "unknown field " + clip(strings.TrimPrefix(err.Error(), "json: unknown field "))
	case strings.HasPrefix(err.Error(), "parsing time"), strings.HasPrefix(err.Error(), "Time.UnmarshalJSON"):
		message = "a time is not in RFC 3339"
	}
	return &messages.Error{Code: messages.CodeInvalidArgument, Message: message, Err: err}
}

func jsonKind(kind string) string {
	switch kind {
	case "struct", "map":
		return "object"
	case "slice", "array":
		return "array"
	}
	return kind
}

// clip keeps a name that came from outside short.
func clip(name string) string {
	const most = 64
	if len(name) > most {
		return strings.ToValidUTF8(name[:most], "") + "…"
	}
	return name
}

// bodyInto reads and decodes a request's body.
func (s *Server) bodyInto(w http.ResponseWriter, r *http.Request, target any) error {
	data, err := s.body(w, r)
	if err != nil {
		return err
	}
	return s.cfg.Node.Intake().Decode(r.Context(), len(data), func() error { return decode(data, target) })
}

// noBody takes an empty body or {}.
func (s *Server) noBody(w http.ResponseWriter, r *http.Request) error {
	data, err := s.body(w, r)
	if err != nil || len(data) == 0 {
		return err
	}
	return decode(data, &struct{}{})
}
