package stores_test

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

func TestF7_ObjectKeys(t *testing.T) {
	long := strings.Repeat("x", stores.MaxObjectSegmentBytes)
	longest := strings.Repeat(long+"/", 4)
	longest += strings.Repeat("y", stores.MaxObjectKeyBytes-len(longest))
	for _, key := range []string{"a", "A-z_0.9", "acme/t-1/e00000001/snap-000001.db", "a.", "a/b.c", "-", "_/-", long, longest} {
		require.NoError(t, stores.ValidateObjectKey(key), "%q", key)
		require.NoError(t, stores.ValidateListPrefix(key), "%q", key)
	}
	for _, key := range []string{"", "/", "a//b", "/a", "a/", "..", "a/..", "a..b", ".a", "a/.b", "a b", "a\x00", "a\n", "ä", "a\\b",
		long + "x", longest + "y"} {
		require.ErrorIs(t, stores.ValidateObjectKey(key), messages.ErrOutOfRange, "%q", key)
	}
}

func TestF7_ListPrefixes(t *testing.T) {
	for _, prefix := range []string{"", "a", "a/", "a/b", "a/b/"} {
		require.NoError(t, stores.ValidateListPrefix(prefix), "%q", prefix)
	}
	for _, prefix := range []string{"/", "//", "a//", "../", "..", ".", "a/.", "a b/"} {
		require.ErrorIs(t, stores.ValidateListPrefix(prefix), messages.ErrOutOfRange, "%q", prefix)
	}
}

func TestF8_DeletePrefixes(t *testing.T) {
	require.NoError(t, stores.ValidateDeletePrefix("org/"))
	require.NoError(t, stores.ValidateDeletePrefix("org/tenant/e00000001/"))
	for _, prefix := range []string{"", "/", "org", "org//", "org/tenant", "../", "a/../"} {
		require.ErrorIs(t, stores.ValidateDeletePrefix(prefix), messages.ErrOutOfRange, "%q", prefix)
	}
}

// The error of a hostile key must be fit for a log.
func TestF7_TheErrorIsPrintable(t *testing.T) {
	err := stores.ValidateObjectKey(strings.Repeat("\x00\n\x1b", 10_000))
	require.ErrorIs(t, err, messages.ErrOutOfRange)
	require.Less(t, len(err.Error()), 1000)
	require.NotContains(t, err.Error(), "\x1b")
}

func FuzzObjectKey(f *testing.F) {
	for _, seed := range []string{"a/b", "", "..", "a//b", ".tmp/x", "a/../b", "a\x00", "ä/b", strings.Repeat("a/", 500)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, key string) {
		err := stores.ValidateObjectKey(key)
		if err != nil {
			if !errors.Is(err, messages.ErrOutOfRange) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		// A key that passes names one file below a root, and is spelled in one way only.
		if path.Clean(key) != key || path.IsAbs(key) || path.Join("/root", key) != "/root/"+key {
			t.Fatalf("%q passes, and is not its own clean path", key)
		}
		for segment := range strings.SplitSeq(key, "/") {
			if segment == "" || segment[0] == '.' || len(segment) > stores.MaxObjectSegmentBytes {
				t.Fatalf("%q passes with the segment %q", key, segment)
			}
		}
		for _, r := range key {
			if r > 0x7e || r <= ' ' {
				t.Fatalf("%q passes with %q", key, r)
			}
		}
		if stores.ValidateListPrefix(key) != nil || stores.ValidateListPrefix(key+"/") != nil || stores.ValidateDeletePrefix(key+"/") != nil {
			t.Fatalf("%q passes, but not as a prefix", key)
		}
	})
}

func ExampleValidateObjectKey() {
	fmt.Println(stores.ValidateObjectKey("acme/t-3129611eac9be1d5994a2b216b06ed27/e00000001/base.json"))
	fmt.Println(stores.ValidateObjectKey("acme/../secrets"))
	// Output:
	// <nil>
	// out_of_range: object key "acme/../secrets": segment begins with a dot
}
