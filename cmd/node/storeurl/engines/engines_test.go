package engines_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/cmd/node/storeurl"
	"github.com/leasehold/leasehold/cmd/node/storeurl/engines"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
	"github.com/leasehold/leasehold/stores/nats/natsserver"
	"github.com/leasehold/leasehold/stores/s3/s3test"
)

func TestMain(m *testing.M) {
	s3test.Main() // this process may be an S3 server of a test
	goleak.VerifyTestMain(m)
}

func Example() {
	schemes := engines.Schemes()
	fmt.Println(schemes.CheckLeases("postgres://leasehold_node@db/leases?sslmode=verify-full"))
	fmt.Println(schemes.CheckLeases("mysql://leasehold_node@db"))
	fmt.Println(schemes.CheckDurable("s3://copies/prod?regoin=eu-central-1"))
	// Output:
	// <nil>
	// invalid_argument: the URL of a mysql store names no database: mysql://USER@HOST/DATABASE
	// invalid_argument: unknown parameters: regoin; a s3 store has: allow_versioning, endpoint, kms_key_id, max_requests, part_size, path_style, region, sse
}

// Every mistake is found before a server is asked, says what is wrong, and shows no secret.
func TestCheck_RefusesWhatCanNeverWork(t *testing.T) {
	t.Setenv("MYSQL_PWD", "")
	folder := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return url.QueryEscape(path)
	}
	one, two, empty := file("one", "hunter2\n"), file("two", "hunter2\nhunter2\n"), file("empty", "\n")
	schemes := engines.Schemes()
	for store, says := range map[string]string{
		"postgres:host=db":                                    "postgres://",
		"postgres://u:hunter2@db":                             "names no database",
		"postgres://u:hunter2@db:port/leases":                 "cannot be read",
		"postgres://u:hunter2%zz@db/leases":                   "cannot be read",
		"postgres://u:x#hunter2@db/leases":                    "cannot be read",
		"postgres://u:hunter2@db/leases?sslmode=no":           "sslmode",
		"postgres://u:hunter2@db/leases?max_conns=0":          "max_conns",
		"postgres://u@db/leases?max_conns=1&max_conns=2":      "twice",
		"postgres://u@db/leases?schema=":                      "empty",
		"postgres://u@db/leases?keep_renewals=-2":             "keep_renewals",
		"postgres://u@db/leases?password_file=/no/such":       "password_file",
		"postgres://u@db/leases?password_file=" + two:         "one line",
		"postgres://u@db/leases?password_file=" + empty:       "one line",
		"postgres://u:hunter2@db/leases?password_file=" + one: "leave one out",
		"postgres://db/leases?password_file=" + one:           "needs a user",
		"mysql:u:hunter2@tcp(db)/leases":                      "mysql://",
		"mysql://u:hunter2@db/":                               "names no database",
		"mysql://:hunter2@db/leases":                          "names no user",
		"mysql://u:hunter2@/leases":                           "names a host",
		"mysql://u:hunter2@db/leases?socket=/run/db.sock":     "names a host",
		"mysql://u:hunter2@a,b/leases":                        "one host",
		"mysql://u:hunter2@db/leases?tls=maybe":               "tls",
		"mysql://u:hunter2@db/leases?multiStatements=true":    "unknown parameters: multiStatements",
		"nats://h":                                               "sync=always",
		"nats://h?separate_hosts=true":                           "sync=always",
		"nats://h?sync=sometimes":                                "sync",
		"nats://h?sync=always&replicas=2":                        "replicas",
		"nats://h,?sync=always":                                  "names no host",
		"nats://?sync=always":                                    "names no host",
		"nats://h/path?sync=always":                              "no path",
		"nats://hunter2@h?sync=always":                           "without a password",
		"nats://u:hunter2@h?sync=always&nkey_file=" + one:        "or an nkey_file",
		"nats://h?sync=always&cert_file=" + one:                  "need each other",
		"nats://h?sync=always&ca_file=/no/such":                  "ca_file",
		"nats://h?sync=always&tls=1":                             "tls",
		"nats://h?sync=always&chunk_bytes=5":                     "unknown parameters: chunk_bytes",
		"s3://hunter2:hunter2@bucket":                            "holds no credentials",
		"s3://":                                                  "names no bucket",
		"s3:///prefix":                                           "names no bucket",
		"s3://bucket/a//b":                                       "prefix",
		"s3://bucket?endpoint=localhost:9000":                    "endpoint",
		"s3://bucket?endpoint=http%3A%2F%2Fu%3Ahunter2%40h":      "endpoint",
		"s3://bucket?kms_key_id=k":                               "kms_key_id",
		"s3://bucket?part_size=1":                                "part_size",
		"s3://bucket?secret_access_key=hunter2&access_key_id=me": "unknown parameters: access_key_id, secret_access_key",
	} {
		err := schemes.CheckLeases(store)
		require.ErrorIs(t, err, messages.ErrInvalidArgument, store)
		require.Contains(t, err.Error(), says, store)
		require.NotContains(t, err.Error(), "hunter2", store)
		_, err = schemes.OpenLeases(t.Context(), store, storeurl.Options{})
		require.ErrorIs(t, err, messages.ErrInvalidArgument, store)
	}
	for _, fine := range []string{
		"postgresql://u:hunter2@a:1,b:2/leases?target_session_attrs=read-write&schema=own", "postgres:///leases?host=/run/postgresql",
		"postgres://u@db/leases?keep_renewals=-1&max_conns=3&password_file=" + one,
		"mysql://u@db/leases?tls=true&password_file=" + one, "mysql://u@[::1]:3307/leases", "mysql://u@/leases?socket=/run/db.sock",
		"nats://a,b:4222,c?replicas=3&separate_hosts=true&cluster=x&domain=y", "nats://u@h?sync=always&keep_entries=9&password_file=" + one,
		"s3://bucket", "s3://bucket/a/b/?sse=aws:kms&kms_key_id=k&allow_versioning=true&endpoint=https://h&path_style=false",
	} {
		require.NoError(t, schemes.CheckLeases(fine), fine)
	}
	require.NoError(t, schemes.CheckDurable("nats://h?sync=always&chunk_bytes=65536"))
	require.ErrorIs(t, schemes.CheckDurable("nats://h?sync=always&keep_entries=9"), messages.ErrInvalidArgument)
	for store, migrates := range map[string]bool{"postgres://u@h/d": true, "mysql://u@h/d": true, "nats://h?sync=always": false, "s3://b": false, "sqlite:x": false} {
		require.Equal(t, migrates, schemes.CheckMigrate(store) == nil, store)
	}
}

// What is opened can be listed, ends with its Close, and leaves no goroutine (see TestMain).
func TestOpen_ClosesWhatItOpened(t *testing.T) {
	nats, err := natsserver.Start(t.Context(), natsserver.Config{Dir: t.TempDir()})
	require.NoError(t, err)
	defer nats.Shutdown()
	t.Setenv("AWS_ACCESS_KEY_ID", s3test.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", s3test.SecretKey)
	bucket := s3test.Start(t)
	schemes := engines.Schemes()
	key := messages.Key{Org: "acme", Tenant: "t-3129611eac9be1d5994a2b216b06ed27"}
	for _, store := range []string{
		nats.URL() + "?sync=always",
		"s3://" + s3test.Bucket + "/a/b?path_style=true&region=" + s3test.Region + "&endpoint=" + url.QueryEscape(bucket.Endpoint),
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		leases, err := schemes.OpenLeases(ctx, store, storeurl.Options{})
		require.NoError(t, err)
		durable, err := schemes.OpenDurable(ctx, store, storeurl.Options{})
		require.NoError(t, err)
		cancel() // the stores do not depend on the context that they were opened with
		_, err = leases.Acquire(t.Context(), key, "node-a#1", time.Minute)
		require.NoError(t, err)
		listed, err := leases.(stores.LeaseLister).Leases(t.Context(), "", 10)
		require.NoError(t, err)
		require.Len(t, listed, 1)
		created, err := durable.PutIfAbsent(t.Context(), key.BaseName(1), []byte("x"))
		require.NoError(t, err)
		require.True(t, created)
		require.NoError(t, errors.Join(durable.Close(), leases.Close()))
		_, _, err = leases.Read(t.Context(), key)
		require.ErrorIs(t, err, messages.ErrClosed)
		_, err = durable.List(t.Context(), "")
		require.ErrorIs(t, err, messages.ErrClosed)
	}
	// A bucket that is not there.
	_, err = schemes.OpenLeases(t.Context(), "s3://nowhere?path_style=true&endpoint="+url.QueryEscape(bucket.Endpoint), storeurl.Options{})
	require.Error(t, err)
	require.False(t, strings.Contains(err.Error(), s3test.SecretKey))
}
