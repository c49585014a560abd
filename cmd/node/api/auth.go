package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"strings"

	"github.com/leasehold/leasehold/messages"
)

// Tokens are bearer tokens, as they are compared. The zero value lets nobody in.
type Tokens struct{ hashes [][sha256.Size]byte }

// NewTokens returns what lets in whoever brings one of some tokens.
func NewTokens(tokens ...string) Tokens {
	var t Tokens
	for _, token := range tokens {
		t.hashes = append(t.hashes, sha256.Sum256([]byte(token)))
	}
	return t
}

// guard decides who may come in. With tokens: whoever brings one. Without: only requests that were
// addressed to a loopback name, and not by a web page of another site.
type guard struct {
	tokens func() Tokens // nil: without
	cross  *http.CrossOriginProtection
}

func newGuard(tokens func() Tokens) *guard {
	return &guard{tokens: tokens, cross: http.NewCrossOriginProtection()}
}

// check returns an error with CodeUnauthorized for a request that may not come in.
func (g *guard) check(r *http.Request) error {
	if g.tokens != nil {
		return g.tokens().check(r)
	}
	forbidden := func(message string) error {
		return refusal{&messages.Error{Code: messages.CodeUnauthorized, Message: message}, http.StatusForbidden}
	}
	// A page whose name was rebound to 127.0.0.1 still sends its own name in Host.
	if !loopbackHost(r.Host) {
		return forbidden("without a token file, requests must be addressed to a loopback name")
	}
	// The check lets every request with a safe method pass, for sites that have pages. This one has none: a link or an
	// image on somebody's page has no business here either.
	unsafe := *r
	unsafe.Method = http.MethodPost
	if err := g.cross.Check(&unsafe); err != nil {
		return forbidden("a web page of another site may not send this")
	}
	return nil
}

// check compares hashes, of equal length whatever was sent, and every one of them, so that the time
// tells neither a length nor which token it was nearest to.
func (t Tokens) check(r *http.Request) error {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sent := sha256.Sum256([]byte(token))
	match := 0
	for i := range t.hashes {
		match |= subtle.ConstantTimeCompare(sent[:], t.hashes[i][:])
	}
	if match != 1 || !strings.EqualFold(scheme, "bearer") || len(r.Header.Values("Authorization")) != 1 {
		return &messages.Error{Code: messages.CodeUnauthorized, Message: "a valid bearer token is needed"}
	}
	return nil
}

func loopbackHost(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	ip := net.ParseIP(name)
	return strings.EqualFold(name, "localhost") || (ip != nil && ip.IsLoopback())
}
