package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"strings"

	"github.com/leasehold/leasehold/messages"
)

// guard decides who may come in. With tokens: whoever brings one. Without: only requests that were
// addressed to a loopback name, and not by a web page of another site.
type guard struct {
	hashes [][sha256.Size]byte
	cross  *http.CrossOriginProtection
}

func newGuard(tokens []string) *guard {
	g := &guard{cross: http.NewCrossOriginProtection()}
	for _, token := range tokens {
		g.hashes = append(g.hashes, sha256.Sum256([]byte(token)))
	}
	return g
}

// check returns an error with CodeUnauthorized for a request that may not come in.
func (g *guard) check(r *http.Request) error {
	if len(g.hashes) > 0 {
		return g.token(r)
	}
	forbidden := func(message string) error {
		return refusal{&messages.Error{Code: messages.CodeUnauthorized, Message: message}, http.StatusForbidden}
	}
	// A page whose name was rebound to 127.0.0.1 still sends its own name in Host.
	if !loopbackHost(r.Host) {
		return forbidden("without a token file, requests must be addressed to a loopback name")
	}
	if err := g.cross.Check(r); err != nil {
		return forbidden("a web page of another site may not send this")
	}
	return nil
}

// token compares hashes, of equal length whatever was sent, and every one of them, so that the time
// tells neither a length nor which token it was nearest to.
func (g *guard) token(r *http.Request) error {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sent := sha256.Sum256([]byte(token))
	match := 0
	for i := range g.hashes {
		match |= subtle.ConstantTimeCompare(sent[:], g.hashes[i][:])
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
