package snapshotactor

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
)

// typed fails unless err is nil or one of the two errors of a decoder, naming its object.
func typed(t *testing.T, o messages.Object, err error) {
	t.Helper()
	switch messages.CodeOf(err) {
	case "":
	case messages.CodeCorrupt, messages.CodeInvalidArgument:
		require.Equal(t, o.Name(), messages.AsError(err).Object)
	default:
		t.Fatalf("untyped: %v", err)
	}
}

func FuzzDecodeBase(f *testing.F) {
	for _, s := range []string{`{"kind":"base","version":1,"key":"` + testKey.String() + `","epoch":3,"from":{"epoch":2,"snapshot":7}}`,
		`{"kind":"seal","version":1,"key":"` + testKey.String() + `","epoch":3,"by":4}`, `{"kind":"base","version":2}`, `null`, `{"kind":"base","epoch":-1}`, "\x00"} {
		f.Add([]byte(s))
	}
	o := messages.Object{Key: testKey, Epoch: 3, Kind: messages.ObjectBase}
	f.Fuzz(func(t *testing.T, data []byte) {
		b, sealed, err := decodeBase(o, data)
		typed(t, o, err)
		if err == nil && !sealed {
			require.Less(t, b.From.Epoch, b.Epoch, "following bases must end")
			again, err := json.Marshal(b)
			require.NoError(t, err)
			b2, _, err := decodeBase(o, again)
			require.NoError(t, err)
			require.Equal(t, b, b2)
		}
		require.Equal(t, sealed && err == nil, isSeal(o, data))
	})
}

func FuzzDecodeManifest(f *testing.F) {
	for _, s := range []string{`{"kind":"manifest","version":1,"key":"` + testKey.String() + `","epoch":3,"snapshot":7,"size":1,"sha256":"` + hash0 + `","time":"2026-11-29T12:00:00Z"}`,
		`{"kind":"seal","version":1,"key":"` + testKey.String() + `","epoch":3,"by":4}`, `{"kind":"manifest","version":1,"increment":1}`, `[]`, `{"kind":"manifest","time":"99999"}`,
		`{"kind":"manifest","version":1,"key":"` + testKey.String() + `","epoch":3,"snapshot":7,"size":1,"sha256":"` + hash0 + `","base":{"epoch":3}}`} {
		f.Add([]byte(s))
	}
	o := messages.Object{Key: testKey, Epoch: 3, Kind: messages.ObjectManifest, Number: 7}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, sealed, err := decodeManifest(o, data)
		typed(t, o, err)
		if err == nil && !sealed {
			require.Equal(t, o.Number, m.Snapshot)
			require.Less(t, m.Base.Epoch, m.Epoch)
			require.Positive(t, m.Size)
			require.Len(t, m.SHA256, 64)
			require.Equal(t, strings.ToLower(m.SHA256), m.SHA256)
		}
	})
}

func FuzzSeal(f *testing.F) {
	f.Add([]byte(`{"kind":"seal","version":1,"key":"`+testKey.String()+`","epoch":3,"by":4}`), uint64(3), uint64(9))
	f.Add([]byte("LTX1\x00\x00"), uint64(1), uint64(2))
	f.Add([]byte{}, uint64(3), uint64(3))
	f.Fuzz(func(t *testing.T, data []byte, epoch, by uint64) {
		o := messages.Object{Key: testKey, Epoch: epoch, Kind: messages.ObjectIncrement, Number: 1}
		isSeal(o, data)
		made, err := encodeSeal(o, by)
		require.NoError(t, err)
		require.Equal(t, by > epoch, isSeal(o, made), "only a later epoch seals")
	})
}

// FuzzListing feeds names and one content for every small object to the whole algorithm.
func FuzzListing(f *testing.F) {
	f.Add("e00000001/base.json\ne00000001/snap-000001.json\ne00000001/inc-000001.ltx", []byte(`{"kind":"base","version":1,"key":"`+testKey.String()+`","epoch":1}`), uint64(2), uint64(0))
	f.Add("e00000001/base.json\n../x\ne1/base.json\ne00000003/base.json", []byte(`{"kind":"seal","version":1,"key":"`+testKey.String()+`","epoch":1,"by":2}`), uint64(4), uint64(1))
	f.Fuzz(func(t *testing.T, names string, content []byte, epoch, floor uint64) {
		epoch, floor = epoch%1000+1, floor%1000
		if floor >= epoch {
			floor = epoch - 1
		}
		var all []string
		for name := range strings.SplitSeq(names, "\n") {
			all = append(all, testKey.Prefix()+name)
		}
		l := readListing(testKey, all)
		for _, e := range epochsBelow(testKey, all, floor) {
			require.True(t, e > 0 && e <= floor)
		}
		p, err := makePlan(context.Background(), l, func(context.Context, string) ([]byte, bool, error) { return content, true, nil }, epoch, floor, 0)
		switch messages.CodeOf(err) {
		case "", messages.CodeCorrupt, messages.CodeInvalidArgument, messages.CodeLineageAhead:
		default:
			t.Fatalf("untyped: %v", err)
		}
		if err == nil {
			require.True(t, p.head == 0 || p.head > floor && p.head < epoch)
			for _, s := range p.seals {
				require.True(t, s.Epoch > floor && s.Epoch < epoch, "%v", s)
			}
		}
	})
}
