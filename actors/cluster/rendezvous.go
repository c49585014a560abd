package cluster

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/leasehold/leasehold/messages"
)

// weight is how well a node, by its name, suits a tenant. The node with the highest weight is suggested:
// rendezvous hashing (Thaler and Ravishankar, "A Name-Based Mapping Scheme for Rendezvous", 1996). When a
// node comes or goes, only the tenants that it gains or loses move.
func weight(name string, key messages.Key) uint64 {
	sum := sha256.Sum256([]byte(key.String() + "\x00" + name))
	return binary.BigEndian.Uint64(sum[:8])
}

// best returns the member with the highest weight for a tenant, and false if there is none. Of members that
// share a name, which a node and its predecessor do for a moment, it is the one that was started last.
func best(members []Info, key messages.Key) (Info, bool) {
	var found Info
	var highest uint64
	ok := false
	for _, m := range members {
		w := weight(m.Name, key)
		later := m.Started.After(found.Started) || (m.Started.Equal(found.Started) && m.Owner > found.Owner)
		if !ok || w > highest || (w == highest && later) {
			found, highest, ok = m, w, true
		}
	}
	return found, ok
}
