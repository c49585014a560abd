package snapshotactor

import (
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/leasehold/leasehold/messages"
)

// encode writes a small object. Its types hold nothing that json.Marshal can refuse, except a time
// after the year 9999.
func encode(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, &messages.Error{Code: messages.CodeInvalidArgument, Message: "cannot be written as JSON", Err: err}
	}
	return data, nil
}

func encodeSeal(o messages.Object, by uint64) ([]byte, error) {
	return encode(messages.Seal{Kind: messages.KindSeal, Version: messages.LineageVersion, Key: o.Key.String(), Epoch: o.Epoch, By: by})
}

// decode reads a small object of the wanted kind, or recognizes a seal in its slot: then v stays as
// it is.
func decode(o messages.Object, data []byte, want string, v any) (sealed bool, err error) {
	kind, err := messages.KindOf(data)
	if err != nil {
		return false, corrupt(o.Name(), "not an object of a lineage", err)
	}
	switch kind {
	case messages.KindSeal:
		return true, checkSeal(o, data)
	case want:
	default:
		return false, corrupt(o.Name(), fmt.Sprintf("holds a %.20q where a %s or a seal belongs", kind, want), nil)
	}
	var head struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(data, &head); err == nil && head.Version > messages.LineageVersion {
		return false, unsupported(o.Name(), fmt.Sprintf("format version %d", head.Version))
	}
	if err := json.Unmarshal(data, v); err != nil {
		return false, corrupt(o.Name(), "does not decode", err)
	}
	return false, nil
}

// checkSeal checks that a seal belongs to its slot. Nobody but a later epoch seals a slot.
func checkSeal(o messages.Object, data []byte) error {
	var s messages.Seal
	if err := json.Unmarshal(data, &s); err != nil {
		return corrupt(o.Name(), "a seal that does not decode", err)
	}
	// A newer version may say more in a seal, but a seal is a seal.
	if s.Version < 1 || s.Key != o.Key.String() || s.Epoch != o.Epoch || s.By <= o.Epoch {
		return corrupt(o.Name(), "a seal that does not belong here", nil)
	}
	return nil
}

// isSeal reports whether the bytes in a slot are a seal: of a base, a manifest or an increment.
func isSeal(o messages.Object, data []byte) bool {
	kind, err := messages.KindOf(data)
	return err == nil && kind == messages.KindSeal && checkSeal(o, data) == nil
}

// decodeBase reads the object in the base slot of an epoch.
func decodeBase(o messages.Object, data []byte) (b messages.Base, sealed bool, err error) {
	sealed, err = decode(o, data, messages.KindBase, &b)
	if err != nil || sealed {
		return messages.Base{}, sealed, err
	}
	f := b.From
	switch {
	case b.Version != messages.LineageVersion:
		err = corrupt(o.Name(), "no format version", nil)
	case b.Key != o.Key.String() || b.Epoch != o.Epoch:
		err = corrupt(o.Name(), "is the base of another tenant or epoch", nil)
	// Strictly below: so that following bases always comes to an end.
	case f.Epoch >= b.Epoch, f.IsEmpty() && f != (messages.Position{}):
		err = corrupt(o.Name(), "names a state that cannot be before its epoch", nil)
	}
	return b, false, err
}

// decodeManifest reads the object in a manifest slot.
func decodeManifest(o messages.Object, data []byte) (m messages.Manifest, sealed bool, err error) {
	sealed, err = decode(o, data, messages.KindManifest, &m)
	if err != nil || sealed {
		return messages.Manifest{}, sealed, err
	}
	hash, hexErr := hex.DecodeString(m.SHA256)
	switch {
	case m.Version != messages.LineageVersion:
		err = corrupt(o.Name(), "no format version", nil)
	case m.Key != o.Key.String() || m.Epoch != o.Epoch || m.Snapshot != o.Number:
		err = corrupt(o.Name(), "is the manifest of another tenant, epoch or number", nil)
	case hexErr != nil || len(hash) != 32 || hex.EncodeToString(hash) != m.SHA256:
		err = corrupt(o.Name(), "carries no SHA-256", nil)
	case m.Size <= 0 || m.Events < 0 || m.LastSeq < 0:
		err = corrupt(o.Name(), "carries impossible counts", nil)
	case m.Base.Epoch >= m.Epoch:
		err = corrupt(o.Name(), "names a base that cannot be before its epoch", nil)
	case m.Increment != 0:
		err = unsupported(o.Name(), fmt.Sprintf("its image covers increment %d", m.Increment))
	}
	return m, false, err
}
