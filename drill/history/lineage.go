package history

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/leasehold/leasehold/messages"
)

// epoch holds the objects of one epoch of a tenant: pins and manifests, without the seals.
type epoch struct {
	base      *messages.Base // nil: absent, or a seal
	baseName  string
	manifests map[uint64]messages.Manifest
}

// newest returns the manifest with the highest number; nil if there is none.
func (e *epoch) newest() *messages.Manifest {
	if e == nil || len(e.manifests) == 0 {
		return nil
	}
	m := e.manifests[slices.Max(slices.Collect(maps.Keys(e.manifests)))]
	return &m
}

// lineage is what the objects of one tenant say.
type lineage struct {
	key    messages.Key
	epochs map[uint64]*epoch
	bad    []Violation // objects that are none
}

func readLineage(key messages.Key, objects map[string]Object) lineage {
	l := lineage{key: key, epochs: map[uint64]*epoch{}}
	for name, object := range objects {
		o, err := messages.ParseObject(name)
		if err != nil || o.Key != key || (o.Kind != messages.ObjectBase && o.Kind != messages.ObjectManifest) {
			continue
		}
		e := l.epochs[o.Epoch]
		if e == nil {
			e = &epoch{manifests: map[uint64]messages.Manifest{}}
			l.epochs[o.Epoch] = e
		}
		var kind struct {
			Kind string `json:"kind"`
		}
		err = json.Unmarshal(object.Data, &kind)
		switch {
		case err == nil && kind.Kind == messages.KindSeal:
			continue
		case err == nil && o.Kind == messages.ObjectBase && kind.Kind == messages.KindBase:
			var b messages.Base
			if err = json.Unmarshal(object.Data, &b); err == nil {
				e.base, e.baseName = &b, name
			}
		case err == nil && kind.Kind == messages.KindManifest:
			var m messages.Manifest
			if err = json.Unmarshal(object.Data, &m); err == nil {
				e.manifests[o.Number] = m
			}
		default:
			err = fmt.Errorf("of kind %q", kind.Kind)
		}
		if err != nil {
			l.bad = append(l.bad, Violation{Rule: "S1", Key: key, Epoch: o.Epoch, Text: fmt.Sprintf("%s is no object of a lineage: %v", name, err)})
		}
	}
	return l
}

// pinned returns the epochs that have a pin, ascending.
func (l lineage) pinned() []uint64 {
	var out []uint64
	for _, n := range slices.Sorted(maps.Keys(l.epochs)) {
		if l.epochs[n].base != nil {
			out = append(out, n)
		}
	}
	return out
}

// Restore says from the objects alone which state a new owner begins with that is granted an epoch
// with a floor: it follows the pins, as steps 3 and 4 of docs/protocol.md tell. The manifest is nil
// for the empty ledger.
func Restore(key messages.Key, objects map[string]Object, below, floor uint64) (messages.Position, *messages.Manifest, error) {
	l := readLineage(key, objects)
	head := uint64(0)
	for _, n := range l.pinned() {
		if n < below && n > floor {
			head = n
		}
	}
	for head > floor {
		e := l.epochs[head]
		if e == nil || e.base == nil {
			return messages.Position{}, nil, fmt.Errorf("epoch %d is named by a pin, and has none", head)
		}
		if m := e.newest(); m != nil {
			return messages.Position{Epoch: head, Snapshot: m.Snapshot}, m, nil
		}
		from := e.base.From
		switch {
		case from.IsEmpty():
			return messages.Position{}, nil, nil
		case from.Epoch <= floor:
			return messages.Position{}, nil, fmt.Errorf("the pin of epoch %d names %v, which is forgotten", head, from)
		case from.Snapshot > 0:
			named := l.epochs[from.Epoch]
			if named == nil {
				return messages.Position{}, nil, fmt.Errorf("the pin of epoch %d names %v, which is gone", head, from)
			}
			m, ok := named.manifests[from.Snapshot]
			if !ok {
				return messages.Position{}, nil, fmt.Errorf("the pin of epoch %d names %v, which is gone", head, from)
			}
			return from, &m, nil
		}
		head = from.Epoch
	}
	return messages.Position{}, nil, nil
}

// checkImage says what is wrong with the image that a manifest promises; "" if nothing is.
func checkImage(key messages.Key, objects map[string]Object, m messages.Manifest) string {
	name := key.ImageName(m.Epoch, m.Snapshot)
	image, ok := objects[name]
	if !ok {
		return name + " is promised by its manifest, and was never there"
	}
	if sum := sha256.Sum256(image.Data); int64(len(image.Data)) != m.Size || hex.EncodeToString(sum[:]) != m.SHA256 {
		return name + " does not have the size and the hash of its manifest"
	}
	return ""
}
