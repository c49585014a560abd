package client

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"

	"github.com/leasehold/leasehold/messages"
)

const (
	// DefaultCluster is the name of a cluster that was not given one.
	DefaultCluster = "leasehold"
	// RequestQueue is the queue group in which the members serve Subjects.AnyRequest.
	RequestQueue = "members"
)

var clusterPattern = regexp.MustCompile(`\A[A-Za-z0-9_-]{1,32}\z`)

// Subjects names the NATS subjects of one cluster. The zero value names none: use NewSubjects.
type Subjects struct{ root string }

// NewSubjects returns the subjects of a cluster; "": DefaultCluster. A name that does not match
// [A-Za-z0-9_-]{1,32} is CodeInvalidArgument.
func NewSubjects(cluster string) (Subjects, error) {
	if cluster == "" {
		cluster = DefaultCluster
	}
	if !clusterPattern.MatchString(cluster) {
		return Subjects{}, invalid("the name of the cluster must match [A-Za-z0-9_-]{1,32}")
	}
	return Subjects{root: "leasehold." + cluster}, nil
}

// AnyRequest is where a request to any member goes: the members serve it in the group RequestQueue.
func (s Subjects) AnyRequest() string { return s.root + ".request" }

// Request is where requests to one member go.
func (s Subjects) Request(owner string) string { return s.root + ".request." + Token(owner) }

// Members is where members talk to all members, Member where they talk to one. Clients need neither.
func (s Subjects) Members() string { return s.root + ".members" }

// Member is where members talk to one of them.
func (s Subjects) Member(owner string) string { return s.root + ".members." + Token(owner) }

// to is where a Transport sends a request.
func (s Subjects) to(target string) string {
	if target == "" {
		return s.AnyRequest()
	}
	return s.Request(target)
}

// Token is an owner id as one token of a subject: the first 16 bytes of its SHA-256 in lower-case hex. An
// owner id may hold anything, a token of a subject neither dots, spaces nor wildcards.
func Token(owner string) string {
	sum := sha256.Sum256([]byte(owner))
	return hex.EncodeToString(sum[:16])
}

func invalid(why string) error {
	return &messages.Error{Code: messages.CodeInvalidArgument, Message: why}
}
