package actors_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/messages"
)

// Whatever stands in the place of one tenant's objects costs that tenant an error that names the object, and the node and its
// other tenants nothing.
func TestQ3_AnObjectOf8TBIsRefusedAndTheOthersGoOn(t *testing.T) {
	const size = 8 << 40
	grow := func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, size)) } // a sparse file
	names := map[string]func(messages.Key) string{
		"pin":      func(k messages.Key) string { return k.BaseName(1) },
		"manifest": func(k messages.Key) string { return k.ManifestName(1, 1) },
		"image":    func(k messages.Key) string { return k.ImageName(1, 1) },
	}
	for name, tt := range map[string]struct {
		object string
		damage func(t *testing.T, file func(object string) string)
		code   messages.Code
		says   string
	}{
		"a pin":       {"pin", func(t *testing.T, file func(string) string) { grow(t, file("pin")) }, messages.CodeCorrupt, "8796093022208 bytes; at most 65536"},
		"a manifest":  {"manifest", func(t *testing.T, file func(string) string) { grow(t, file("manifest")) }, messages.CodeCorrupt, "8796093022208 bytes; at most 65536"},
		"an image":    {"image", func(t *testing.T, file func(string) string) { grow(t, file("image")) }, messages.CodeCorrupt, "8796093022208 bytes; at most "},
		"a link":      {"manifest", func(t *testing.T, file func(string) string) { link(t, file("manifest")) }, messages.CodeCorrupt, "a symbolic link"},
		"a link, pin": {"pin", func(t *testing.T, file func(string) string) { link(t, file("pin")) }, messages.CodeCorrupt, "a symbolic link"},
		"an image, as its manifest says": {"image", func(t *testing.T, file func(string) string) {
			grow(t, file("image"))
			data, err := os.ReadFile(file("manifest"))
			require.NoError(t, err)
			var m messages.Manifest
			require.NoError(t, json.Unmarshal(data, &m))
			m.Size = size
			data, err = json.Marshal(m)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(file("manifest"), data, 0o600))
		}, messages.CodeTooLarge, "8796093022208 bytes by its manifest; this node takes at most 1073741824 (max_image)"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, f *fleet) {
				n := f.start()
				other, damaged := open(t, n, "other"), open(t, n, "damaged")
				appendKind(t, damaged, "x")
				require.NoError(t, damaged.Handoff(t.Context()))
				key := damaged.Key()
				tt.damage(t, func(object string) string { return filepath.Join(f.root, "durable", names[object](key)) })

				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				for range 5 {
					_, err := tryOpen(t.Context(), n, key.Tenant)
					e := messages.AsError(err)
					require.Equal(t, tt.code, e.Code, "%v", err)
					require.Equal(t, names[tt.object](key), e.Object)
					require.Equal(t, key.String(), e.Key)
					require.ErrorContains(t, err, tt.says)
					appendKind(t, other, "goes on")
					time.Sleep(2 * time.Second)
				}
				runtime.ReadMemStats(&after)
				t.Logf("%d KiB allocated", (after.TotalAlloc-before.TotalAlloc)>>10)
				require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20))
				require.Len(t, kinds(t, other), 5)
				require.NoError(t, n.Shutdown(t.Context()))
			})
		})
	}
}

// A forget deletes an object of any size, but not by halves what a link stands for.
func TestS6_AForgetTellsWhatItCannotDelete(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		n := f.start(func(c *actors.Config) { c.SnapshotEvery = time.Hour })
		tenant := open(t, n, "u")
		appendKind(t, tenant, "x")
		_, err := tenant.Snapshot(t.Context())
		require.NoError(t, err)
		image := tenant.Key().ImageName(1, 1)
		link(t, filepath.Join(f.root, "durable", image))
		err = tenant.Forget(t.Context())
		require.ErrorIs(t, err, messages.ErrUnknownOutcome)
		require.ErrorIs(t, err, messages.ErrCorrupt)
		require.ErrorContains(t, err, image)
	})
}

// link moves a file elsewhere and leaves a symbolic link in its place.
func link(t *testing.T, path string) {
	t.Helper()
	elsewhere := filepath.Join(t.TempDir(), "moved")
	require.NoError(t, os.Rename(path, elsewhere))
	require.NoError(t, os.Symlink(elsewhere, path))
}
