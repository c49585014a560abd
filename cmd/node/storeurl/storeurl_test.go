package storeurl_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/cmd/node/storeurl"
	"github.com/leasehold/leasehold/messages"
)

func Example() {
	folder, err := os.MkdirTemp("", "storeurl-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	schemes := storeurl.Embedded()
	leases, err := schemes.OpenLeases(context.Background(), "sqlite:"+filepath.Join(folder, "leases.db"))
	fmt.Println(leases != nil, err)
	_, err = schemes.OpenLeases(context.Background(), "redis://host")
	fmt.Println(err)
	fmt.Println(leases.Close())
	// Output:
	// true <nil>
	// invalid_argument: this binary has no lease store of the scheme "redis"; it has: sqlite
	// <nil>
}

func TestSchemes_RefuseWhatCanNeverWorkAndTouchNothing(t *testing.T) {
	folder := t.TempDir()
	schemes := storeurl.Embedded()
	for _, bad := range []string{"", "sqlite", "sqlite:", "dir:" + folder + "/x", "SQLITE:" + folder + "/x", folder + "/x"} {
		require.ErrorIs(t, schemes.CheckLeases(bad), messages.ErrInvalidArgument, bad)
		_, err := schemes.OpenLeases(t.Context(), bad)
		require.ErrorIs(t, err, messages.ErrInvalidArgument, bad)
	}
	for _, bad := range []string{"", "dir", "dir:", "sqlite:" + folder + "/x", "s3://bucket"} {
		require.ErrorIs(t, schemes.CheckDurable(bad), messages.ErrInvalidArgument, bad)
		_, err := schemes.OpenDurable(t.Context(), bad)
		require.ErrorIs(t, err, messages.ErrInvalidArgument, bad)
	}
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Empty(t, entries)
}

// A binary that links another binding adds it, and only its own Schemes have it.
func TestSchemes_TakeMore(t *testing.T) {
	schemes := storeurl.Embedded()
	var asked string
	schemes.Durable["s3"] = func(_ context.Context, rest string) (storeurl.DurableStore, error) {
		asked = rest
		return nil, messages.ErrUnavailable
	}
	_, err := schemes.OpenDurable(t.Context(), "s3://bucket/path")
	require.ErrorIs(t, err, messages.ErrUnavailable)
	require.Equal(t, "//bucket/path", asked)
	require.Error(t, storeurl.Embedded().CheckDurable("s3://bucket"))
}

func TestRedact_LeavesNoSecret(t *testing.T) {
	for in, out := range map[string]string{
		"sqlite:/var/lib/leases.db":                         "sqlite:/var/lib/leases.db",
		"dir:copies":                                        "dir:copies",
		"postgres://leasehold@db/leases":                    "postgres://leasehold@db/leases",
		"postgres://leasehold:hunter2@db/leases?sslmode=on": "postgres://leasehold:xxxxx@db/leases?sslmode=on",
		"mysql:leasehold:hunter2@tcp(db:3306)/leases":       "mysql:xxxxx@tcp(db:3306)/leases",
		"s3://bucket/path?secret_key=hunter2&region=eu":     "s3://bucket/path?region=eu&secret_key=xxxxx",
		"nats://host?TOKEN=hunter2":                         "nats://host?TOKEN=xxxxx",
		"postgres://a:hunter2%zz@db":                        "postgres:xxxxx",
	} {
		got := storeurl.Redact(in)
		require.Equal(t, out, got)
		require.NotContains(t, got, "hunter2")
	}
}
