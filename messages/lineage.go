package messages

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Position names one exact state of a tenant's lineage: a snapshot of an epoch, and the number of
// increments of that epoch that follow it. The zero Position is the empty ledger.
//
// Snapshot 0 with Epoch > 0 stands for the base of that epoch (images only: never written).
type Position struct {
	Epoch     uint64 `json:"epoch"`
	Snapshot  uint64 `json:"snapshot"`
	Increment uint64 `json:"increment"`
}

// IsEmpty reports whether p is the empty ledger.
func (p Position) IsEmpty() bool { return p.Epoch == 0 }

// String returns "empty", or "e3/snap-7", or "e3/snap-7+2".
func (p Position) String() string {
	switch {
	case p.IsEmpty():
		return "empty"
	case p.Increment == 0:
		return fmt.Sprintf("e%d/snap-%d", p.Epoch, p.Snapshot)
	}
	return fmt.Sprintf("e%d/snap-%d+%d", p.Epoch, p.Snapshot, p.Increment)
}

// LineageVersion is the version of the object formats below.
const LineageVersion = 1

// Kinds of the small JSON objects. A seal takes the slot of a pin, a manifest or an increment, so
// that a predecessor that was paused meets "already there".
const (
	KindBase     = "base"
	KindManifest = "manifest"
	KindSeal     = "seal"
	KindFloor    = "floor"
)

// MaxSmallObjectBytes bounds the small JSON objects of a durable store: pins, manifests, seals, floors, and the identity of a
// deployment. None that this version writes comes near it.
const MaxSmallObjectBytes = 64 << 10

// Base is the pin of an epoch: what exactly it was restored from.
type Base struct {
	Kind    string `json:"kind"` // KindBase, or KindSeal for a sealed slot
	Version int    `json:"version"`
	Key     string `json:"key"`
	Epoch   uint64 `json:"epoch"`
	// From is the state that this epoch begins with.
	From Position `json:"from"`
	// Owner and Nonce make the bytes of each attempt unique, so that reading a pin back tells one's
	// own success from anybody else's.
	Owner string `json:"owner"`
	Nonce string `json:"nonce"`
}

// Manifest describes one snapshot. It is put after its image, and promises it.
type Manifest struct {
	Kind     string `json:"kind"` // KindManifest, or KindSeal for a sealed slot
	Version  int    `json:"version"`
	Key      string `json:"key"`
	Epoch    uint64 `json:"epoch"`
	Snapshot uint64 `json:"snapshot"` // 1, 2, 3, … without a gap
	// Increment is the last increment of this epoch that the image covers; 0: none.
	Increment uint64 `json:"increment"`
	// Size is the image's length in bytes, SHA256 its hash in lower-case hex.
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	// Events is the number of rows in the events table, LastSeq its highest seq (0: none).
	Events  int64 `json:"events"`
	LastSeq int64 `json:"last_seq"`
	// Base repeats the pin of the epoch.
	Base Position `json:"base"`
	// Began says what the epochs up to this one began with, as far as a caller can need it; see Begin. In the order of the epochs.
	Began []Began   `json:"began,omitempty"`
	Time  time.Time `json:"time"` // when the image was cut, by the holder's clock; for people and for retention by age
	Owner string    `json:"owner"`
	Nonce string    `json:"nonce"`
}

// Seal fills a slot of an earlier epoch that no real object may take any more.
type Seal struct {
	Kind    string `json:"kind"` // KindSeal
	Version int    `json:"version"`
	Key     string `json:"key"`
	Epoch   uint64 `json:"epoch"` // the epoch whose slot is sealed
	By      uint64 `json:"by"`    // the epoch of the holder that sealed it
}

// Floor says that everything up to an epoch was forgotten. The lease record says so first; this copy of it is for a lease store
// that loses its records. Its bytes follow from its name: whoever writes it writes the same.
type Floor struct {
	Kind    string `json:"kind"` // KindFloor
	Version int    `json:"version"`
	Key     string `json:"key"`
	Floor   uint64 `json:"floor"`
}

// KindOf returns the kind of a small JSON object, or an error with CodeCorrupt.
func KindOf(data []byte) (string, error) {
	var k struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(data, &k); err != nil || k.Kind == "" {
		return "", &Error{Code: CodeCorrupt, Message: "not an object of a lineage", Err: err}
	}
	return k.Kind, nil
}

// ObjectKind tells the objects of an epoch apart by name.
type ObjectKind string

// The objects of an epoch, and the floor, which is an object of the tenant.
const (
	ObjectBase      ObjectKind = "base"      // base.json
	ObjectImage     ObjectKind = "image"     // snap-%06d.db
	ObjectManifest  ObjectKind = "manifest"  // snap-%06d.json
	ObjectIncrement ObjectKind = "increment" // inc-%06d.ltx
	ObjectFloor     ObjectKind = "floor"     // floor-%08d.json, beside the epochs' folders; Epoch is the floor
)

// Object is a parsed name of a durable object of a tenant. Numbers are compared as numbers, never
// as text: past 999,999 a name simply grows a digit.
type Object struct {
	Key    Key
	Epoch  uint64
	Kind   ObjectKind
	Number uint64 // 0 for the base and the floor, else from 1
}

// Prefix returns "<org>/<tenant>/", the prefix of all of a tenant's objects.
func (k Key) Prefix() string { return k.String() + "/" }

// EpochPrefix returns "<org>/<tenant>/e%08d/", the prefix of the objects of one epoch.
func (k Key) EpochPrefix(epoch uint64) string { return fmt.Sprintf("%s/e%08d/", k, epoch) }

// BaseName, ImageName, ManifestName and IncrementName return the names of an epoch's objects.
func (k Key) BaseName(epoch uint64) string { return k.EpochPrefix(epoch) + "base.json" }

// ImageName returns the name of the image of snapshot n.
func (k Key) ImageName(epoch, n uint64) string {
	return fmt.Sprintf("%ssnap-%06d.db", k.EpochPrefix(epoch), n)
}

// ManifestName returns the name of the manifest of snapshot n.
func (k Key) ManifestName(epoch, n uint64) string {
	return fmt.Sprintf("%ssnap-%06d.json", k.EpochPrefix(epoch), n)
}

// IncrementName returns the name of increment n.
func (k Key) IncrementName(epoch, n uint64) string {
	return fmt.Sprintf("%sinc-%06d.ltx", k.EpochPrefix(epoch), n)
}

// FloorName returns the name of the object that says that everything up to epoch floor was forgotten.
func (k Key) FloorName(floor uint64) string { return fmt.Sprintf("%s/floor-%08d.json", k, floor) }

// Name returns the name of the object: ParseObject(o.Name()) == o.
func (o Object) Name() string {
	switch o.Kind {
	case ObjectImage:
		return o.Key.ImageName(o.Epoch, o.Number)
	case ObjectManifest:
		return o.Key.ManifestName(o.Epoch, o.Number)
	case ObjectIncrement:
		return o.Key.IncrementName(o.Epoch, o.Number)
	case ObjectFloor:
		return o.Key.FloorName(o.Epoch)
	}
	return o.Key.BaseName(o.Epoch)
}

// ParseObject reads the name of a durable object of a tenant. A name that is none, or that is not
// written exactly as Name writes it, is refused with CodeOutOfRange.
func ParseObject(name string) (Object, error) {
	bad := func() (Object, error) {
		return Object{}, &Error{Code: CodeOutOfRange, Object: name, Message: "not the name of a lineage object"}
	}
	parts := strings.Split(name, "/")
	if len(parts) != 3 && len(parts) != 4 {
		return bad()
	}
	key, err := NewKey(OrgID(parts[0]), TenantID(parts[1]))
	if err != nil {
		return bad()
	}
	o := Object{Key: key, Kind: ObjectFloor}
	digits := strings.TrimSuffix(strings.TrimPrefix(parts[2], "floor-"), ".json")
	if len(parts) == 4 {
		o.Kind, digits = ObjectBase, strings.TrimPrefix(parts[2], "e")
	}
	if o.Epoch, err = strconv.ParseUint(digits, 10, 64); err != nil || o.Epoch == 0 {
		return bad()
	}
	if rest := parts[len(parts)-1]; o.Kind == ObjectBase && rest != "base.json" {
		stem, ext, _ := strings.Cut(rest, ".")
		kind, digits, _ := strings.Cut(stem, "-")
		switch kind + "." + ext {
		case "snap.db":
			o.Kind = ObjectImage
		case "snap.json":
			o.Kind = ObjectManifest
		case "inc.ltx":
			o.Kind = ObjectIncrement
		default:
			return bad()
		}
		if o.Number, err = strconv.ParseUint(digits, 10, 64); err != nil || o.Number == 0 {
			return bad()
		}
	}
	// One name per object: e3, e003 and e00000003 must not be three spellings of one epoch.
	if o.Name() != name {
		return bad()
	}
	return o, nil
}
