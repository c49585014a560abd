package embedded_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/cmd/node/config"
	"github.com/leasehold/leasehold/cmd/node/daemon/embedded"
	"github.com/leasehold/leasehold/cmd/node/storeurl"
	"github.com/leasehold/leasehold/cmd/node/storeurl/engines"
	"github.com/leasehold/leasehold/messages"
)

// parse returns the configuration that flags lead to.
func parse(t *testing.T, args ...string) config.Config {
	t.Helper()
	var c config.Config
	parser, err := kong.New(&c)
	require.NoError(t, err)
	_, err = parser.Parse(args)
	require.NoError(t, err)
	return c
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

const three = "--nats-routes=127.0.0.1:6222,127.0.0.1:6223,127.0.0.1:6224"

// Every setting at fault is named, before anything is started or created.
func TestValidate_Cluster(t *testing.T) {
	auth := "--nats-config=" + file(t, "authorization { user: u, password: hunter2 }\n")
	both := "--nats-config=" + file(t, "authorization { user: u, password: hunter2 }\ncluster { authorization { user: m, password: hunter2 } }\n")
	secret := file(t, "hunter2\n")
	for name, c := range map[string]struct {
		says string // "": it is fine
		args []string
	}{
		"alone":                  {"", []string{"--nats-embedded"}},
		"servers that are there": {"", []string{"--nats=nats://h1,h2:4333?sync=always"}},
		"both":                   {"nats: names servers", []string{"--nats-embedded", "--nats=nats://h?sync=always"}},
		"no promise":             {"nats: what is acknowledged", []string{"--nats=nats://h"}},
		"another scheme":         {"nats: this binary has no", []string{"--nats=nets://h"}},
		"stores of both kinds":   {"", []string{"--nats=nats://h?sync=always&keep_entries=9&chunk_bytes=65536"}},
		"a bad parameter":        {"nats: unknown parameters: x", []string{"--nats=nats://h?sync=always&x=1"}},
		"its own stores":         {"", []string{"--nats-embedded", "--leases=sqlite:x", "--durable=dir:x"}},
		"its own, wrong":         {"leases: this binary has no", []string{"--nats-embedded", "--leases=redis:x"}},

		"routes, none embedded":  {"nats_routes: is about the embedded", []string{three}},
		"cluster, none embedded": {"nats_cluster_listen: is about", []string{"--nats-cluster-listen=127.0.0.1:1"}},
		"file, none embedded":    {"nats_config: is about", []string{auth, "--nats=nats://h?sync=always"}},
		"params, none embedded":  {"nats_params: is about", []string{"--nats-params=tls=true"}},

		"no port":      {"nats_listen: \"127.0.0.1\" is not HOST:PORT", []string{"--nats-embedded", "--nats-listen=127.0.0.1"}},
		"any port":     {"nats_listen: \"127.0.0.1:0\" has no port", []string{"--nats-embedded", "--nats-listen=127.0.0.1:0"}},
		"much too far": {"nats_listen: ", []string{"--nats-embedded", "--nats-listen=127.0.0.1:65536"}},

		"three":             {"", []string{"--nats-embedded", "--nats-cluster-listen=127.0.0.1:6223", three}},
		"routes alone":      {"nats_routes: needs nats_cluster_listen", []string{"--nats-embedded", three}},
		"no routes":         {"nats_routes: must name all members", []string{"--nats-embedded", "--nats-cluster-listen=127.0.0.1:6223"}},
		"two":               {"3 or 5 addresses, not 2", []string{"--nats-embedded", "--nats-cluster-listen=127.0.0.1:1", "--nats-routes=127.0.0.1:1,127.0.0.1:2"}},
		"four":              {"3 or 5 addresses, not 4", []string{"--nats-embedded", "--nats-cluster-listen=a:1", "--nats-routes=a:1,b:1,c:1,d:1"}},
		"one twice":         {"127.0.0.1:1 is there twice", []string{"--nats-embedded", "--nats-cluster-listen=127.0.0.1:1", "--nats-routes=127.0.0.1:1,127.0.0.1:2,127.0.0.1:1"}},
		"without itself":    {"is not among them", []string{"--nats-embedded", "--nats-cluster-listen=127.0.0.1:6225", three}},
		"not an address":    {"nats_routes: \"b\" is not HOST:PORT", []string{"--nats-embedded", "--nats-cluster-listen=127.0.0.1:1", "--nats-routes=127.0.0.1:1,b,c:1"}},
		"nobody's address":  {"nats_routes: \":1\" has no host", []string{"--nats-embedded", "--nats-cluster-listen=127.0.0.1:1", "--nats-routes=127.0.0.1:1,:1,c:1"}},
		"names, everywhere": {"", []string{"--nats-embedded", "--nats-cluster-listen=:6222", "--nats-routes=a:6222,b:6222,c:6222", both}},

		"abroad":                {"nats_config: a NATS server that listens on 0.0.0.0", []string{"--nats-embedded", "--nats-listen=:4222"}},
		"abroad, users":         {"", []string{"--nats-embedded", "--nats-listen=10.0.0.1:4222", auth, "--nats-params=user=u&password_file=" + secret}},
		"members abroad":        {"whose cluster port listens on 10.0.0.1", []string{"--nats-embedded", "--nats-cluster-listen=10.0.0.1:1", "--nats-routes=10.0.0.1:1,10.0.0.2:1,10.0.0.3:1", auth}},
		"members abroad, known": {"", []string{"--nats-embedded", "--nats-cluster-listen=10.0.0.1:1", "--nats-routes=10.0.0.1:1,10.0.0.2:1,10.0.0.3:1", both}},
		"no such file":          {"nats_config: the NATS server cannot use its configuration file", []string{"--nats-embedded", "--nats-config=/no/such/file"}},

		"a password in params":  {"nats_params: a password belongs in a file", []string{"--nats-embedded", "--nats-params=user=u&password=hunter2"}},
		"params that are none":  {"nats_params: is not NAME=VALUE", []string{"--nats-embedded", "--nats-params=%zz"}},
		"params of nothing":     {"nats_params: unknown parameters: colour", []string{"--nats-embedded", "--nats-params=colour=red"}},
		"params with a file":    {"nats_params: the parameter \"nkey_file\"", []string{"--nats-embedded", "--nats-params=nkey_file=/no/such/file"}},
		"no patience":           {"start_timeout: must be above 0", []string{"--nats-embedded", "--start-timeout=0s"}},
		"certificate alone":     {"tls_cert: and tls_key need each other", []string{"--tls-cert=x"}},
		"key alone":             {"tls_cert: and tls_key need each other", []string{"--tls-key=x"}},
		"authorities alone":     {"tls_client_ca: needs tls_cert", []string{"--tls-client-ca=x"}},
		"no certificate":        {"tls_cert: ", []string{"--tls-cert=" + secret, "--tls-key=" + secret}},
		"a missing certificate": {"tls_cert: open /no/such/file", []string{"--tls-cert=/no/such/file", "--tls-key=" + secret}},
	} {
		root := filepath.Join(t.TempDir(), "root")
		cfg := parse(t, append(c.args, "--state-root="+root, "--node-name=n")...)
		err := cfg.Validate(engines.Schemes(), embedded.NATS{})
		require.NoDirExists(t, root)
		if c.says == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorIs(t, err, messages.ErrInvalidArgument, name)
		require.ErrorContains(t, err, c.says, name)
		require.NotContains(t, err.Error(), "hunter2", name)
	}
	require.ErrorContains(t, parse(t, "--nats-embedded").Validate(engines.Schemes(), nil), "nats_embedded: this binary has no NATS server in it")
	require.ErrorContains(t, parse(t, "--nats=nats://h?sync=always").Validate(storeurl.Embedded(), nil), "nats: this binary has no lease store of the scheme")
}

// What was not set follows from the NATS servers, and what was set wins.
func TestEffective_StoresAreOnNATS(t *testing.T) {
	for name, c := range map[string]struct {
		args                  []string
		leases, durable, nats string
	}{
		"neither":      {nil, "sqlite:leasehold-data/leases.db", "dir:leasehold-data/durable", ""},
		"alone":        {[]string{"--nats-embedded"}, "nats://127.0.0.1:4222?replicas=1&sync=always", "nats://127.0.0.1:4222?replicas=1&sync=always", "nats://127.0.0.1:4222?replicas=1&sync=always"},
		"everywhere":   {[]string{"--nats-embedded", "--nats-listen=:5"}, "nats://127.0.0.1:5?replicas=1&sync=always", "nats://127.0.0.1:5?replicas=1&sync=always", "nats://127.0.0.1:5?replicas=1&sync=always"},
		"three":        {[]string{"--nats-embedded", three, "--durable=dir:x"}, "nats://127.0.0.1:4222?replicas=3&sync=always", "dir:x", "nats://127.0.0.1:4222?replicas=3&sync=always"},
		"its own say":  {[]string{"--nats-embedded", three, "--nats-params=replicas=1&user=u&cluster=c"}, "nats://u@127.0.0.1:4222?cluster=c&replicas=1&sync=always", "nats://u@127.0.0.1:4222?cluster=c&replicas=1&sync=always", "nats://u@127.0.0.1:4222?cluster=c&replicas=1&sync=always"},
		"there":        {[]string{"--nats=nats://a,b:1?sync=always"}, "nats://a,b:1?sync=always", "nats://a,b:1?sync=always", "nats://a,b:1?sync=always"},
		"kinds differ": {[]string{"--nats=nats://u:p@a,b:1?sync=always&keep_entries=9&chunk_bytes=7"}, "nats://u:p@a,b:1?keep_entries=9&sync=always", "nats://u:p@a,b:1?chunk_bytes=7&sync=always", "nats://u:p@a,b:1?sync=always&keep_entries=9&chunk_bytes=7"},
		"leases":       {[]string{"--nats=nats://a?sync=always", "--leases=sqlite:x"}, "sqlite:x", "nats://a?sync=always", "nats://a?sync=always"},
	} {
		e := parse(t, c.args...).Effective()
		require.Equal(t, []string{c.leases, c.durable, c.nats}, []string{e.Leases, e.Durable, e.NATSURL()}, name)
		again := e.Effective()
		require.Equal(t, e, again, name)
		if !strings.Contains(c.nats, "p@") {
			continue
		}
		var out strings.Builder
		require.NoError(t, e.Print(&out, false))
		require.NotContains(t, out.String(), "u:p@")
		require.Contains(t, out.String(), "nats: nats://u:xxxxx@a,b:1")
	}
}
