package s3

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// logFormat of a renewal log, in its field "v".
const logFormat = 1

// renewalLog is an object in which the renewals of many leases stand: see the package comment. Every version is
// conditional on the one before it.
type renewalLog struct {
	V       int    `json:"v"`
	Name    string `json:"name"`
	Version uint64 `json:"version"`
	// Closed: no member is renewed here any more, whether it is named below or not.
	Closed bool `json:"closed,omitempty"`
	// Standing holds the newest renewal of each member that has one and is not revoked.
	Standing []group `json:"standing,omitempty"`
	// Revoked members are not renewed here any more. Their newest renewals (In is 0: there is none) stand as long as they did.
	Revoked []group `json:"revoked,omitempty"`
	// Trail holds the newest replacements, of which the last made this version; older ones were copied to overflow objects.
	Trail []replacement `json:"trail"`
}

// group is some members whose newest renewals are one: they came with one version, with one ttl.
type group struct {
	In      uint64    `json:"in"` // the version with which they came
	AtMS    int64     `json:"at_ms"`
	TTLMS   int64     `json:"ttl_ms"`
	Members memberSet `json:"members"`
}

// replacement is what one version changed.
type replacement struct {
	Version uint64    `json:"version"`
	AtMS    int64     `json:"at_ms"` // since 1970, by an estimate of the server's clock
	Nonce   string    `json:"nonce"` // names the call that wrote it, and makes every version differ
	Renewed []batch   `json:"renewed,omitempty"`
	Revoked memberSet `json:"revoked,omitempty"`
	Closed  bool      `json:"closed,omitempty"`
}

// batch is the members of a replacement that were renewed with one ttl.
type batch struct {
	TTLMS   int64     `json:"ttl_ms"`
	Members memberSet `json:"members"`
}

func (g group) ttl() time.Duration { return time.Duration(g.TTLMS) * time.Millisecond }

func (g group) endMS() int64 { return g.AtMS + g.TTLMS }

// newest returns the newest renewal of a member, if it has one, and whether it is revoked. A nil log has none.
func (r *renewalLog) newest(member int) (g group, revoked bool) {
	if r == nil {
		return group{}, false
	}
	for _, g := range r.Standing {
		if g.Members.has(member) {
			return g, r.Closed
		}
	}
	for _, g := range r.Revoked {
		if g.Members.has(member) {
			return g, true
		}
	}
	return group{}, r.Closed
}

// wrote says with which version the call named nonce wrote, if it is one of the newest.
func (r *renewalLog) wrote(nonce string) (version uint64, ok bool) {
	if r == nil {
		return 0, false
	}
	for _, e := range r.Trail {
		if e.Nonce == nonce {
			return e.Version, true
		}
	}
	return 0, false
}

// newLog returns the first version of a log.
func newLog(name string, at int64, nonce string) *renewalLog {
	return &renewalLog{V: logFormat, Name: name, Version: 1, Trail: []replacement{{Version: 1, AtMS: at, Nonce: nonce}}}
}

// next begins the next version, a copy of r.
func (r *renewalLog) next(at int64, nonce string) *renewalLog {
	n := &renewalLog{V: logFormat, Name: r.Name, Version: r.Version + 1, Closed: r.Closed,
		Standing: slices.Clone(r.Standing), Revoked: slices.Clone(r.Revoked), Trail: slices.Clone(r.Trail)}
	n.Trail = append(n.Trail, replacement{Version: n.Version, AtMS: max(at, r.made().AtMS), Nonce: nonce})
	return n
}

func (r *renewalLog) made() *replacement { return &r.Trail[len(r.Trail)-1] }

// renew adds a renewal of members with a ttl to a version that next began.
func (r *renewalLog) renew(ttl time.Duration, members memberSet) {
	made := r.made()
	r.Standing = without(r.Standing, members)
	r.Standing = append(r.Standing, group{In: r.Version, AtMS: made.AtMS, TTLMS: ttl.Milliseconds(), Members: members})
	made.Renewed = append(made.Renewed, batch{TTLMS: ttl.Milliseconds(), Members: members})
}

// revoke adds a revocation of members.
func (r *renewalLog) revoke(members memberSet) {
	made := r.made()
	made.Revoked = made.Revoked.union(members)
	for _, g := range r.Revoked {
		members = members.minus(g.Members)
	}
	for _, g := range r.Standing {
		if both := g.Members.minus(g.Members.minus(members)); len(both) > 0 {
			members = members.minus(both)
			g.Members = both
			r.Revoked = append(r.Revoked, g)
		}
	}
	if len(members) > 0 {
		r.Revoked = append(r.Revoked, group{AtMS: made.AtMS, Members: members})
	}
	r.Standing = without(r.Standing, made.Revoked)
}

// without takes members out of groups, and groups out that have none left.
func without(groups []group, members memberSet) []group {
	var left []group
	for _, g := range groups {
		if g.Members = g.Members.minus(members); len(g.Members) > 0 {
			left = append(left, g)
		}
	}
	return left
}

func (r *renewalLog) encode() ([]byte, error) { return json.Marshal(r) }

// decodeLog reads a renewal log, or says with CodeCorrupt why it cannot be one.
func decodeLog(name string, data []byte) (*renewalLog, error) {
	var r renewalLog
	err := json.Unmarshal(data, &r)
	switch {
	case err != nil:
	case r.V != logFormat:
		err = fmt.Errorf("format %d, not %d", r.V, logFormat)
	case r.Name != name:
		err = fmt.Errorf("it is another log")
	case len(r.Trail) == 0 || r.made().Version != r.Version:
		err = fmt.Errorf("version %d has no entry in the trail", r.Version)
	default:
		if err = followEachOther(r.Trail); err == nil {
			err = r.groupsFit()
		}
	}
	if err != nil {
		return nil, &messages.Error{Code: messages.CodeCorrupt, Object: kindRenewals + name, Message: "the renewal log breaks the rules of renewal logs", Err: err}
	}
	return &r, nil
}

// followEachOther says what is wrong with a sequence of replacements.
func followEachOther(trail []replacement) error {
	for i, e := range trail {
		if e.Version == 0 || e.Nonce == "" {
			return fmt.Errorf("replacement %d names no version, or no call", i)
		}
		if i > 0 && (e.Version != trail[i-1].Version+1 || e.AtMS < trail[i-1].AtMS) {
			return fmt.Errorf("version %d comes after %d, or is older", e.Version, trail[i-1].Version)
		}
		for _, b := range e.Renewed {
			if b.TTLMS <= 0 || len(b.Members) == 0 {
				return fmt.Errorf("version %d renews nothing, or for no time", e.Version)
			}
		}
	}
	return nil
}

// groupsFit says what is wrong with the groups: each member stands in one.
func (r *renewalLog) groupsFit() error {
	var all []memberRange
	members := 0
	for i, g := range slices.Concat(r.Standing, r.Revoked) {
		standing := i < len(r.Standing)
		if len(g.Members) == 0 || g.In > r.Version || g.TTLMS < 0 || (g.In == 0) != (g.TTLMS == 0) || standing && g.In == 0 {
			return fmt.Errorf("a group of version %d for %d ms", g.In, g.TTLMS)
		}
		all, members = append(all, g.Members...), members+g.Members.count()
	}
	if joined(all).count() != members {
		return fmt.Errorf("a member stands in two groups")
	}
	return nil
}
