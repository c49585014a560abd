package messages_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
)

var lineageKey = messages.Key{Org: "acme", Tenant: "t-3129611eac9be1d5994a2b216b06ed27"}

func TestObjectNames(t *testing.T) {
	const root = "acme/t-3129611eac9be1d5994a2b216b06ed27/"
	for name, want := range map[string]messages.Object{
		"e00000001/base.json":             {Epoch: 1, Kind: messages.ObjectBase},
		"e00000012/snap-000003.db":        {Epoch: 12, Kind: messages.ObjectImage, Number: 3},
		"e00000012/snap-000003.json":      {Epoch: 12, Kind: messages.ObjectManifest, Number: 3},
		"e99999999/snap-999999.json":      {Epoch: 99_999_999, Kind: messages.ObjectManifest, Number: 999_999},
		"e100000000/snap-1000000.json":    {Epoch: 100_000_000, Kind: messages.ObjectManifest, Number: 1_000_000},
		"e00000001/inc-000001.ltx":        {Epoch: 1, Kind: messages.ObjectIncrement, Number: 1},
		"e18446744073709551615/base.json": {Epoch: math.MaxUint64, Kind: messages.ObjectBase},
	} {
		want.Key = lineageKey
		got, err := messages.ParseObject(root + name)
		require.NoError(t, err, name)
		require.Equal(t, want, got)
		require.Equal(t, root+name, got.Name())
	}
	for _, bad := range []string{"", "base.json", "e1/base.json", "e00000000/base.json", "e000000001/base.json", "e00000001/base.json/", "e00000001/BASE.json",
		"e00000001/snap-000000.db", "e00000001/snap-1.db", "e00000001/snap-0000001.db", "e00000001/snap-000001.dbx", "e00000001/snap-+00001.db",
		"e00000001/snap--00001.db", "e00000001/inc-000001.json", "e00000001/snap-000001", "e00000001//base.json", "00000001/base.json", "e-0000001/base.json",
		"e18446744073709551616/base.json", "e00000001/snap-99999999999999999999.db", "e00000001/snap-000001.db\n"} {
		_, err := messages.ParseObject(root + bad)
		require.ErrorIs(t, err, messages.ErrOutOfRange, "%q", bad)
	}
	_, err := messages.ParseObject("acme/t-1/e00000001/base.json")
	require.ErrorIs(t, err, messages.ErrOutOfRange)
}

func TestPositions(t *testing.T) {
	require.True(t, messages.Position{}.IsEmpty())
	require.Equal(t, "empty", messages.Position{}.String())
	require.Equal(t, "e3/snap-7", messages.Position{Epoch: 3, Snapshot: 7}.String())
	require.Equal(t, "e3/snap-7+2", messages.Position{Epoch: 3, Snapshot: 7, Increment: 2}.String())
}

func TestKindOf(t *testing.T) {
	kind, err := messages.KindOf([]byte(`{"kind":"seal","by":3}`))
	require.NoError(t, err)
	require.Equal(t, messages.KindSeal, kind)
	for _, bad := range []string{"", "{}", `{"kind":""}`, `{"kind":1}`, `[]`, `{"kind":"seal"`, "\x00"} {
		_, err := messages.KindOf([]byte(bad))
		require.ErrorIs(t, err, messages.ErrCorrupt, "%q", bad)
	}
}

// A name is an object's, written exactly as Name writes it, or it is refused.
func FuzzParseObject(f *testing.F) {
	f.Add("acme/t-3129611eac9be1d5994a2b216b06ed27/e00000001/snap-000001.json")
	f.Add("acme/t-3129611eac9be1d5994a2b216b06ed27/e1/snap-1.db")
	f.Fuzz(func(t *testing.T, name string) {
		o, err := messages.ParseObject(name)
		if err != nil {
			require.ErrorIs(t, err, messages.ErrOutOfRange)
			return
		}
		require.Equal(t, name, o.Name())
		require.NoError(t, o.Key.Validate())
		require.Positive(t, o.Epoch)
	})
}
