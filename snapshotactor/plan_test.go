package snapshotactor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/planted"
)

// slotState is what a generated history has in a slot.
type slotState int

const (
	absent slotState = iota
	sealed
	occupied
)

// history is a generated store, in plain terms: no names, no JSON.
type history struct {
	epoch, floor uint64
	bases        map[uint64]slotState
	from         map[uint64]messages.Position
	manifests    map[messages.Position]slotState // by epoch and snapshot
	increment1   map[uint64]slotState
}

// The numbers around which text and numbers part: 999999 < 1000000, but "999999" > "1000000".
var (
	someNumbers = []uint64{1, 2, 3, 9, 10, 999_998, 999_999, 1_000_000, 1_000_001, 9_999_999, 10_000_000}
	someOffsets = []uint64{0, 99_999_996, 1 << 40} // epochs outgrow their eight digits too
)

var histories = rapid.Custom(func(t *rapid.T) history {
	state := func(label string, weights ...slotState) slotState { return rapid.SampledFrom(weights).Draw(t, label) }
	offset := rapid.SampledFrom(someOffsets).Draw(t, "offset")
	h := history{bases: map[uint64]slotState{}, from: map[uint64]messages.Position{}, manifests: map[messages.Position]slotState{}, increment1: map[uint64]slotState{}}
	h.floor = offset + rapid.Uint64Range(0, 2).Draw(t, "floor")
	h.epoch = h.floor + rapid.Uint64Range(1, 6).Draw(t, "granted")
	refused := rapid.IntRange(0, 7).Draw(t, "refused") == 7 // a restore that is refused at once shows little
	for e := offset + 1; e <= offset+9; e++ {
		if e < h.epoch || refused {
			h.bases[e] = state("base", absent, sealed, occupied, occupied, occupied)
		}
		if e > offset+1 {
			h.from[e] = h.drawFrom(t, offset, e)
		}
		for range rapid.IntRange(0, 2).Draw(t, "snapshots") {
			n := rapid.SampledFrom(someNumbers).Draw(t, "number")
			h.manifests[messages.Position{Epoch: e, Snapshot: n}] = state("manifest", sealed, occupied, occupied, occupied)
		}
		h.increment1[e] = state("increment", absent, absent, absent, absent, absent, absent, sealed, sealed, occupied)
	}
	return h
})

// drawFrom draws what the base of epoch e names: a snapshot that is there, the empty ledger, the base of
// another epoch, or anything.
func (h history) drawFrom(t *rapid.T, offset, e uint64) messages.Position {
	var there []messages.Position
	for at, state := range h.manifests {
		if state == occupied {
			there = append(there, at)
		}
	}
	slices.SortFunc(there, func(a, b messages.Position) int {
		return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Snapshot, b.Snapshot))
	})
	switch rapid.IntRange(0, 6).Draw(t, "kind of base") {
	case 0:
		return messages.Position{}
	case 1:
		return messages.Position{Epoch: rapid.Uint64Range(offset+1, e-1).Draw(t, "from")}
	case 2:
		return messages.Position{Epoch: rapid.Uint64Range(offset+1, e-1).Draw(t, "from"), Snapshot: rapid.SampledFrom(someNumbers).Draw(t, "from snapshot")}
	}
	if len(there) == 0 {
		return messages.Position{}
	}
	return rapid.SampledFrom(there).Draw(t, "from there")
}

// objects writes the history down as a store would hold it.
func (h history) objects() map[string]string {
	out := map[string]string{}
	put := func(name string, v any) {
		data, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		out[name] = string(data)
	}
	seal := func(epoch uint64) messages.Seal {
		return messages.Seal{Kind: messages.KindSeal, Version: 1, Key: testKey.String(), Epoch: epoch, By: epoch + 1}
	}
	for e, state := range h.bases {
		switch state {
		case sealed:
			put(testKey.BaseName(e), seal(e))
		case occupied:
			put(testKey.BaseName(e), messages.Base{Kind: messages.KindBase, Version: 1, Key: testKey.String(), Epoch: e, From: h.from[e]})
		}
	}
	for at, state := range h.manifests {
		out[testKey.ImageName(at.Epoch, at.Snapshot)] = "image" // late images alone never matter
		if state == sealed {
			put(testKey.ManifestName(at.Epoch, at.Snapshot), seal(at.Epoch))
			continue
		}
		put(testKey.ManifestName(at.Epoch, at.Snapshot), messages.Manifest{Kind: messages.KindManifest, Version: 1, Key: testKey.String(),
			Epoch: at.Epoch, Snapshot: at.Snapshot, Size: 5, SHA256: hash0, Base: h.from[at.Epoch]})
	}
	for e, state := range h.increment1 {
		switch state {
		case sealed:
			put(testKey.IncrementName(e, 1), seal(e))
		case occupied:
			out[testKey.IncrementName(e, 1)] = "LTX1"
		}
	}
	return out
}

// verdict is an outcome of the algorithm that can be compared.
type verdict struct {
	Code  messages.Code
	From  messages.Position
	Head  uint64
	Seals []string
}

// oracle decides by the words of the protocol, by trying everything.
func (h history) oracle() verdict {
	inEpoch := func(e uint64) (newest uint64) {
		for at, state := range h.manifests {
			if at.Epoch == e && state == occupied && at.Snapshot > newest {
				newest = at.Snapshot
			}
		}
		return newest
	}
	v := verdict{}
	for e, state := range h.bases {
		if e >= h.epoch && state != absent {
			return verdict{Code: messages.CodeLineageAhead}
		}
		if e < h.epoch && e > h.floor && state == occupied && e > v.Head {
			v.Head = e
		}
	}
	for e := max(v.Head, h.floor) + 1; e < h.epoch; e++ {
		if h.bases[e] == absent {
			v.Seals = append(v.Seals, testKey.BaseName(e))
		}
	}
	if v.Head == 0 {
		return v
	}
	var resolve func(at messages.Position) (messages.Position, messages.Code)
	resolve = func(at messages.Position) (messages.Position, messages.Code) {
		switch {
		case at.Epoch == 0:
			return messages.Position{}, ""
		case at.Epoch <= h.floor:
			return messages.Position{}, messages.CodeCorrupt
		case at.Snapshot == 0 && h.bases[at.Epoch] == occupied:
			return resolve(h.from[at.Epoch])
		case at.Snapshot > 0 && h.manifests[at] == occupied:
			return at, ""
		}
		return messages.Position{}, messages.CodeCorrupt
	}
	newest := inEpoch(v.Head)
	if newest > 0 {
		v.From = messages.Position{Epoch: v.Head, Snapshot: newest}
	} else if v.From, v.Code = resolve(h.from[v.Head]); v.Code != "" {
		return verdict{Code: v.Code}
	}
	switch h.increment1[v.Head] {
	case occupied:
		return verdict{Code: messages.CodeInvalidArgument}
	case absent:
		v.Seals = append(v.Seals, testKey.IncrementName(v.Head, 1))
	}
	if h.manifests[messages.Position{Epoch: v.Head, Snapshot: newest + 1}] == absent {
		v.Seals = append(v.Seals, testKey.ManifestName(v.Head, newest+1))
	}
	return v
}

// decided runs the real algorithm on the history.
func (h history) decided(faults planted.Set) verdict {
	store := h.objects()
	names := []string{testKey.Prefix() + "floor.json", "other/" + string(testKey.Tenant) + "/e00000001/base.json"}
	for name := range store {
		names = append(names, name)
	}
	read := func(_ context.Context, name string) ([]byte, bool, error) {
		data, ok := store[name]
		return []byte(data), ok, nil
	}
	p, err := makePlan(context.Background(), readListing(testKey, names), read, h.epoch, h.floor, faults)
	if err != nil {
		return verdict{Code: messages.CodeOf(err)}
	}
	v := verdict{From: p.from(), Head: p.head}
	for _, s := range p.seals {
		v.Seals = append(v.Seals, s.Name())
	}
	return v
}

func TestS2_TheRestoreAlgorithmAgreesWithItsOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := histories.Draw(t, "history")
		if want, got := h.oracle(), h.decided(0); fmt.Sprint(want) != fmt.Sprint(got) {
			t.Fatalf("want %+v\ngot  %+v", want, got)
		}
	})
}

// The generated histories must reach every kind of outcome, else agreement says little.
func TestTheGeneratedHistoriesCoverTheOutcomes(t *testing.T) {
	seen := map[string]int{}
	for seed := range 600 {
		v := histories.Example(seed).oracle()
		kind := string(v.Code)
		switch {
		case v.Code != "":
		case v.Head == 0:
			kind = "nothing"
		case v.From.IsEmpty():
			kind = "empty"
		case v.From.Epoch != v.Head:
			kind = "inherited"
		case v.From.Snapshot > 999_999:
			kind = "seven digits"
		default:
			kind = "own snapshot"
		}
		seen[kind]++
	}
	for _, kind := range []string{"lineage_ahead", "corrupt", "invalid_argument", "nothing", "empty", "inherited", "seven digits", "own snapshot"} {
		require.Greater(t, seen[kind], 5, "%s: %v", kind, seen)
	}
}

func TestPlantedFaultsOfTheRestoreAlgorithmAreFound(t *testing.T) {
	for _, fault := range []planted.Fault{planted.NumbersAsText, planted.NewestObject, planted.IgnoreFloor, planted.AdoptOwnBase} {
		t.Run(fault.String(), func(t *testing.T) {
			found := slices.ContainsFunc(seeds(500), func(seed int) bool {
				h := histories.Example(seed)
				return fmt.Sprint(h.oracle()) != fmt.Sprint(h.decided(planted.Of(fault)))
			})
			require.True(t, found, "500 histories do not show it")
		})
	}
}

func seeds(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i + 1
	}
	return out
}

func TestAListedObjectThatIsGoneFailsTheOpen(t *testing.T) {
	names := []string{testKey.BaseName(1), testKey.ManifestName(1, 1)}
	none := func(context.Context, string) ([]byte, bool, error) { return nil, false, nil }
	_, err := makePlan(context.Background(), readListing(testKey, names), none, 2, 0, 0)
	code(t, messages.CodeCorrupt, err)
	object(t, testKey.BaseName(1), err)
}
