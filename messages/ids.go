package messages

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Limits of what an identity is derived from. All are bytes.
const (
	// MinKeyBytes is the shortest key of an organization that DeriveTenant takes.
	MinKeyBytes = 32
	// MaxNameBytes is the longest issuer or subject that DeriveTenant takes.
	MaxNameBytes = 512
)

var (
	// \z and not $: $ would let a trailing newline pass.
	orgPattern    = regexp.MustCompile(`\A[a-z0-9][a-z0-9-]{0,62}\z`)
	tenantPattern = regexp.MustCompile(`\At-[0-9a-f]{32}\z`)
)

// OrgID names an organization: [a-z0-9][a-z0-9-]{0,62}.
type OrgID string

// Validate returns an error with CodeInvalidID unless o is a well-formed organization id.
func (o OrgID) Validate() error {
	if !orgPattern.MatchString(string(o)) {
		return &Error{Code: CodeInvalidID, Message: "organization id must match [a-z0-9][a-z0-9-]{0,62}"}
	}
	return nil
}

// TenantID names a tenant: "t-" and 32 lower-case hex digits. It is derived by DeriveTenant, never
// chosen, so it says nothing about the person or company behind it.
type TenantID string

// Validate returns an error with CodeInvalidID unless t is a well-formed tenant id.
func (t TenantID) Validate() error {
	if !tenantPattern.MatchString(string(t)) {
		return &Error{Code: CodeInvalidID, Message: "tenant id must be t- and 32 lower-case hex digits"}
	}
	return nil
}

// DeriveTenant derives a tenant id from an identity that an identity provider vouches for:
// HMAC-SHA-256 (RFC 2104), keyed with the organization's key, over issuer, a zero byte and subject,
// cut to 128 bits.
//
// The key must have at least MinKeyBytes; issuer and subject must be valid UTF-8 of 1 to
// MaxNameBytes bytes without a NUL. Anything else is an error with CodeInvalidID.
func DeriveTenant(key []byte, issuer, subject string) (TenantID, error) {
	if len(key) < MinKeyBytes {
		return "", &Error{Code: CodeInvalidID, Message: fmt.Sprintf("organization key has %d bytes, needs at least %d", len(key), MinKeyBytes)}
	}
	for _, part := range []struct{ name, value string }{{"issuer", issuer}, {"subject", subject}} {
		// The value itself is personal data: it must not reach an error, which may be logged.
		switch {
		case len(part.value) == 0 || len(part.value) > MaxNameBytes:
			return "", &Error{Code: CodeInvalidID, Message: fmt.Sprintf("%s has %d bytes, needs 1 to %d", part.name, len(part.value), MaxNameBytes)}
		case !utf8.ValidString(part.value):
			return "", &Error{Code: CodeInvalidID, Message: part.name + " is not valid UTF-8"}
		case strings.IndexByte(part.value, 0) >= 0:
			return "", &Error{Code: CodeInvalidID, Message: part.name + " holds a NUL"}
		}
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(issuer))
	mac.Write([]byte{0})
	mac.Write([]byte(subject))
	return TenantID("t-" + hex.EncodeToString(mac.Sum(nil)[:16])), nil
}

// Key names one tenant of one organization: the key of its lease and of its objects.
type Key struct {
	Org    OrgID    `json:"org"`
	Tenant TenantID `json:"tenant"`
}

// NewKey returns the key of a tenant, or an error with CodeInvalidID.
func NewKey(org OrgID, tenant TenantID) (Key, error) {
	k := Key{Org: org, Tenant: tenant}
	return k, k.Validate()
}

// ParseKey reads what Key.String writes, or returns an error with CodeInvalidID.
func ParseKey(s string) (Key, error) {
	org, tenant, ok := strings.Cut(s, "/")
	if !ok {
		return Key{}, &Error{Code: CodeInvalidID, Message: "lease key must be <org>/<tenant>"}
	}
	return NewKey(OrgID(org), TenantID(tenant))
}

// Validate returns an error with CodeInvalidID unless both ids are well formed.
func (k Key) Validate() error {
	if err := k.Org.Validate(); err != nil {
		return err
	}
	return k.Tenant.Validate()
}

// String returns "<org>/<tenant>".
func (k Key) String() string { return string(k.Org) + "/" + string(k.Tenant) }

// Root returns the folder of the tenant's local files: <stateRoot>/orgs/<org>/tenants/<tenant>.
// It creates nothing. It returns an error with CodeInvalidID for a malformed key, so that no id
// can name a path outside the state root.
func (k Key) Root(stateRoot string) (string, error) {
	if err := k.Validate(); err != nil {
		return "", err
	}
	return filepath.Join(stateRoot, "orgs", string(k.Org), "tenants", string(k.Tenant)), nil
}
