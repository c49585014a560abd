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
	leases, err := schemes.OpenLeases(context.Background(), "sqlite:"+filepath.Join(folder, "leases.db"), storeurl.Options{})
	fmt.Println(leases != nil, err)
	_, err = schemes.OpenLeases(context.Background(), "redis://host", storeurl.Options{})
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
		_, err := schemes.OpenLeases(t.Context(), bad, storeurl.Options{})
		require.ErrorIs(t, err, messages.ErrInvalidArgument, bad)
	}
	for _, bad := range []string{"", "dir", "dir:", "sqlite:" + folder + "/x", "s3://bucket"} {
		require.ErrorIs(t, schemes.CheckDurable(bad), messages.ErrInvalidArgument, bad)
		_, err := schemes.OpenDurable(t.Context(), bad, storeurl.Options{})
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
	schemes.Durable["s3"] = storeurl.Scheme[storeurl.DurableStore]{Open: func(_ context.Context, rest string, _ storeurl.Options) (storeurl.DurableStore, error) {
		asked = rest
		return nil, messages.ErrUnavailable
	}}
	_, err := schemes.OpenDurable(t.Context(), "s3://bucket/path", storeurl.Options{})
	require.ErrorIs(t, err, messages.ErrUnavailable)
	require.Equal(t, "//bucket/path", asked)
	require.Error(t, storeurl.Embedded().CheckDurable("s3://bucket"))
}

// Only a store that has a schema is migrated: elsewhere the flag would be a promise that nobody keeps.
func TestSchemes_RefuseToMigrateWhatHasNoSchema(t *testing.T) {
	schemes := storeurl.Embedded()
	file := filepath.Join(t.TempDir(), "leases.db")
	require.ErrorIs(t, schemes.CheckMigrate("sqlite:"+file), messages.ErrInvalidArgument)
	_, err := schemes.OpenLeases(t.Context(), "sqlite:"+file, storeurl.Options{Migrate: true})
	require.ErrorIs(t, err, messages.ErrInvalidArgument)
	require.NoFileExists(t, file)
	var migrated bool
	schemes.Leases["own"] = storeurl.Scheme[storeurl.LeaseStore]{Migrates: true, Open: func(_ context.Context, _ string, o storeurl.Options) (storeurl.LeaseStore, error) {
		migrated = o.Migrate
		return nil, messages.ErrUnavailable
	}}
	require.NoError(t, schemes.CheckMigrate("own:x"))
	_, err = schemes.OpenLeases(t.Context(), "own:x", storeurl.Options{Migrate: true})
	require.ErrorIs(t, err, messages.ErrUnavailable)
	require.True(t, migrated)
}

func TestParse_TakesSeveralHosts(t *testing.T) {
	for in, hosts := range map[string]string{
		"nats://a,b:1,c": "a,b:1,c", "nats://u:p@a:1,b:2?x=1": "a:1,b:2", "postgres://u@[::1]:1,b/db": "[::1]:1,b", "postgres:///db": "", "dir:x": "",
	} {
		u, err := storeurl.Parse(in)
		require.NoError(t, err, in)
		require.Equal(t, hosts, u.Host)
	}
	for _, bad := range []string{"nats://a:hunter2,b", "nats://u:hunter2#@h", "nats://u:hunter2%zz@h", "x:y#hunter2", "://hunter2"} {
		_, err := storeurl.Parse(bad)
		require.Error(t, err, bad)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

func TestRedact_LeavesNoSecret(t *testing.T) {
	for in, out := range map[string]string{
		"sqlite:/var/lib/leases.db":                         "sqlite:/var/lib/leases.db",
		"dir:copies":                                        "dir:copies",
		"postgres://leasehold@db/leases":                    "postgres://leasehold@db/leases",
		"postgres://leasehold:hunter2@db/leases?sslmode=on": "postgres://leasehold:xxxxx@db/leases?sslmode=on",
		"mysql:leasehold:hunter2@tcp(db:3306)/leases":       "mysql:xxxxx@tcp(db:3306)/leases",
		"s3://bucket/path?secret_key=hunter2&region=eu":     "s3://bucket/path?region=eu&secret_key=xxxxx",
		"host=db user=a password=hunter2":                   "xxxxx",
		"host=db user=a password=hunter2:5432":              "xxxxx",
		"postgres:host=db password=hunter2":                 "postgres:xxxxx",
		"a:hunter2@tcp(db)/leases":                          "a:xxxxx@tcp(db)/leases",
		"/var/lib/leases.db":                                "/var/lib/leases.db",
		"nats://host?TOKEN=hunter2":                         "nats://host?TOKEN=xxxxx",
		"postgres://a:hunter2%zz@db":                        "postgres:xxxxx",
		"postgres://a:x#hunter2@db/leases":                  "postgres:xxxxx",
		"postgres://a:hunter2@h1:5432,h2:5432/leases":       "postgres://a:xxxxx@h1:5432,h2:5432/leases",
		"mysql://a:hunter2@db/leases?tls=true":              "mysql://a:xxxxx@db/leases?tls=true",
		"mysql:a:p@hunter2@tcp(db)/leases":                  "mysql:xxxxx@tcp(db)/leases",
		"mysql:a@tcp(db)/leases?password=hunter2":           "mysql:xxxxx",
		"nats://a:hunter2@h1,h2:4222,h3?sync=always":        "nats://a:xxxxx@h1,h2:4222,h3?sync=always",
		"nats://hunter2@host":                               "nats://xxxxx@host",
		"s3://hunter2@bucket":                               "s3://xxxxx@bucket",
		"nats://u@host?password_file=/run/secret":           "nats://xxxxx@host?password_file=%2Frun%2Fsecret",
		"sqlite:/var/lib/who@host?.db":                      "sqlite:/var/lib/who@host?.db",
	} {
		got := storeurl.Redact(in)
		require.Equal(t, out, got)
		require.NotContains(t, got, "hunter2")
	}
}

// Whatever says what is wrong with a store says it without its secret.
func TestQ7_ErrorsAboutStoresHoldNoSecret(t *testing.T) {
	for _, store := range []string{
		"host=db password=hunter2", "host=db password=hunter2:x", "postgres:host=db password=hunter2", "redis://a:hunter2@h", "hunter2@h",
		"host=db pwd='hunter2'", "POSTGRES://a:hunter2@db",
	} {
		for _, err := range []error{storeurl.Embedded().CheckLeases(store), storeurl.Embedded().CheckDurable(store), storeurl.Embedded().CheckMigrate(store)} {
			require.ErrorIs(t, err, messages.ErrInvalidArgument, store)
			require.NotContains(t, err.Error(), "hunter2", store)
		}
	}
	for in, out := range map[string]string{
		"unexpected argument password=hunter2":        "unexpected argument password=xxxxx",
		"dial postgres://a:hunter2@db/x: refused":     "dial postgres://a:xxxxx@db/x: refused",
		"user=a&password_file=/run/x&nkey_file=/y":    "user=a&password_file=/run/x&nkey_file=/y",
		"unknown flag --ttl=1s":                       "unknown flag --ttl=1s",
		"PGPASSWORD=hunter2 sslpassword=hunter2 ab=1": "PGPASSWORD=xxxxx sslpassword=xxxxx ab=1",
	} {
		require.Equal(t, out, storeurl.RedactText(in))
	}
}
