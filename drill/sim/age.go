package sim

import (
	"encoding/json"

	"github.com/leasehold/leasehold/messages"
)

// renumbered returns a manifest with another number.
func renumbered(manifest []byte, number uint64) ([]byte, error) {
	var m messages.Manifest
	if err := json.Unmarshal(manifest, &m); err != nil {
		return nil, err
	}
	m.Snapshot = number
	return json.Marshal(m)
}
