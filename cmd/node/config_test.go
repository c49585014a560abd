package main_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/cmd/node/config"
)

// effective runs `node config` with an environment and returns its JSON.
func effective(t *testing.T, env []string, args ...string) (out, stderr string, code int) {
	t.Helper()
	cmd := command(t, append([]string{"config"}, args...)...)
	cmd.Env = append(cmd.Env, env...)
	var stdout, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &errs
	_ = cmd.Run() // the exit code says it
	return stdout.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// Flags win over the environment, that over the file, that over the defaults.
func TestConfig_Precedence(t *testing.T) {
	t.Parallel()
	yaml := file(t, "node.yaml", "ttl: 7s\nlisten: 127.0.0.1:1\nmax_rows: 77\nunsafe_planted: true\nplanted: no-seal\nlog_level: debug\n")
	out, stderr, code := effective(t, []string{"LEASEHOLD_TTL=8s", "LEASEHOLD_LISTEN=127.0.0.1:2", "LEASEHOLD_CONFIG=" + yaml}, "--ttl=9s")
	require.Equal(t, 0, code, stderr)
	for _, line := range []string{"ttl: 9s", "listen: 127.0.0.1:2", "max_rows: 77", "planted: no-seal", "log_level: debug", "snapshot_every: 5s", "margin: 2.25s", "max_body: 16777216"} {
		require.Contains(t, out, line+"\n")
	}
	// --config wins over LEASEHOLD_CONFIG.
	other := file(t, "other.yaml", "max_rows: 5\n")
	out, _, _ = effective(t, []string{"LEASEHOLD_CONFIG=" + yaml}, "--config="+other)
	require.Contains(t, out, "max_rows: 5\n")
	require.Contains(t, out, "ttl: 10s\n")
}

// What is printed is a file that leads to the same configuration.
func TestConfig_PrintsWhatItTakes(t *testing.T) {
	t.Parallel()
	key := file(t, "acme.key", strings.Repeat("07", 32)+"\n")
	first, stderr, code := effective(t, nil, "--org-key=acme="+key, "--idle-after=-1s", "--retain=3")
	require.Equal(t, 0, code, stderr)
	require.Contains(t, first, "key_file: "+key)
	require.NotContains(t, first, "0707")
	second, stderr, code := effective(t, nil, "--config="+file(t, "again.yaml", first))
	require.Equal(t, 0, code, stderr)
	require.Equal(t, first, second)
	asJSON, _, code := effective(t, nil, "--json")
	require.Equal(t, 0, code)
	require.Contains(t, asJSON, `"ttl": "10s"`)
}

func TestConfig_EverySettingIsAFlagAndAKeyOfTheFile(t *testing.T) {
	t.Parallel()
	help, _, code := tool(t, "config", "--help")
	require.Zero(t, code)
	for _, name := range config.Names() {
		if name == "orgs" {
			name = "org_key"
		}
		require.Contains(t, help, "--"+strings.ReplaceAll(name, "_", "-"))
		require.Contains(t, help, "LEASEHOLD_"+strings.ToUpper(name))
	}
}

// Every mistake is named by the setting that it is in.
func TestConfig_NamesTheFieldAtFault(t *testing.T) {
	t.Parallel()
	short := file(t, "short.key", "0707")
	text := file(t, "text.key", "this is no hex, and a secret")
	for name, c := range map[string]struct{ yaml, says string }{
		"unknown key":           {"ttl: 5s\nttll: 5s\n", "unknown settings: ttll"},
		"unknown keys":          {"b_: 1\na_: 1\n", "unknown settings: a_, b_"},
		"flag spelling":         {"max-rows: 5\n", "unknown settings: max-rows"},
		"not YAML":              {"ttl: [\n", "config file"},
		"a list":                {"- ttl\n", "config file"},
		"twice":                 {"ttl: 5s\nttl: 6s\n", "ttl"},
		"no value":              {"ttl:\n", "ttl: has no value"},
		"nested":                {"ttl: {a: 1}\n", "ttl: must be a single value"},
		"not a duration":        {"ttl: 5\n", "ttl"},
		"ttl out of range":      {"ttl: 1ms\n", "ttl: "},
		"margin":                {"margin: 11s\n", "margin: "},
		"renew_every":           {"renew_every: 9s\n", "renew_every: "},
		"not a number":          {"max_rows: many\n", "max-rows"},
		"zero":                  {"max_open: 0\n", "max_open: must be above 0"},
		"negative":              {"retain: -1\n", "retain: "},
		"listen":                {"listen: nowhere\n", "listen: "},
		"port":                  {"listen: 127.0.0.1:70000\n", "listen: "},
		"not loopback":          {"listen: 0.0.0.0:80\n", "token_file: "},
		"host name":             {"listen: example.com:80\n", "token_file: "},
		"all interfaces":        {"listen: ':80'\n", "token_file: "},
		"token file that is no": {"token_file: /no/such/file\n", "token_file: "},
		"lease scheme":          {"leases: redis://h\n", "leases: "},
		"lease no scheme":       {"leases: /a/b\n", "leases: "},
		"lease no path":         {"leases: 'sqlite:'\n", "leases: "},
		"lease of NATS":         {"leases: nats://a secret:a secret@h\n", "leases: "},
		"lease parameter":       {"leases: nats://h?sync=alway\n", "leases: the parameter \"sync\""},
		"durable parameter":     {"durable: s3://b?regoin=eu\n", "durable: unknown parameters: regoin"},
		"durable in PostgreSQL": {"durable: postgres://h/db\n", "durable: this binary has no durable store of the scheme \"postgres\""},
		"migrate without":       {"migrate: true\n", "migrate: a lease store of the scheme \"sqlite\""},
		"durable scheme":        {"durable: ftp://h\n", "durable: "},
		"log format":            {"log_format: xml\n", "log_format: "},
		"log level":             {"log_level: loud\n", "log_level: "},
		"org without file":      {"orgs: {acme: {}}\n", "orgs.acme: has no key_file"},
		"org with other keys":   {"orgs: {acme: {key: abc}}\n", "orgs: "},
		"org of another shape":  {"orgs: [acme]\n", "orgs: "},
		"bad org":               {"orgs: {Acme: {key_file: " + short + "}}\n", "orgs.Acme: "},
		"short key":             {"orgs: {acme: {key_file: " + short + "}}\n", "orgs.acme: "},
		"key of text":           {"orgs: {acme: {key_file: " + text + "}}\n", "orgs.acme: "},
		"timeouts":              {"max_timeout: 1s\n", "max_timeout: "},
	} {
		t.Run(name, func(t *testing.T) {
			out, stderr, code := effective(t, nil, "--config="+file(t, "node.yaml", c.yaml))
			require.Equal(t, 2, code, "%s%s", out, stderr)
			require.Contains(t, stderr, c.says)
			require.NotContains(t, stderr, "a secret")
			require.Empty(t, out)
		})
	}
	// All of them at once.
	_, stderr, _ := effective(t, nil, "--config="+file(t, "node.yaml", "ttl: 1ms\nmax_open: 0\nlog_level: loud\n"))
	for _, field := range []string{"ttl: ", "max_open: ", "log_level: "} {
		require.Contains(t, stderr, field)
	}
}

func TestConfig_TokenFiles(t *testing.T) {
	t.Parallel()
	token := strings.Repeat("t", 32)
	for text, says := range map[string]string{
		"":                            "holds no token",
		"# only a comment\n":          "holds no token",
		"short-secret\n":              "line 1",
		token + "\n" + "a b " + token: "line 2",
		token + "\n\n" + token + "ü":  "line 3",
	} {
		_, stderr, code := effective(t, nil, "--listen=0.0.0.0:80", "--insecure=plain_http", "--token-file="+file(t, "tokens", text))
		require.Equal(t, 2, code)
		require.Contains(t, stderr, says)
		require.NotContains(t, stderr, "short-secret")
		require.NotContains(t, stderr, token)
	}
	out, stderr, code := effective(t, nil, "--listen=0.0.0.0:80", "--insecure=plain_http", "--token-file="+file(t, "tokens", token+"\r\n"))
	require.Equal(t, 0, code, stderr)
	require.NotContains(t, out, token)
}

// Q7: what undoes the protection of another setting is refused, and the switch that allows it is named.
func TestQ7_InsecureSettingsAreRefusedUnlessAllowed(t *testing.T) {
	t.Parallel()
	tokens := file(t, "tokens", strings.Repeat("t", 32))
	readable := file(t, "tokens", strings.Repeat("t", 32))
	require.NoError(t, os.Chmod(readable, 0o644))
	key := file(t, "key", strings.Repeat("07", 32))
	require.NoError(t, os.Chmod(key, 0o644))
	writable := t.TempDir()
	require.NoError(t, os.Chmod(writable, 0o777))
	for name, args := range map[string][]string{
		"readable_secrets":    {"--token-file=" + readable},
		"writable_state_root": {"--state-root=" + writable},
		"plain_http":          {"--listen=0.0.0.0:80", "--token-file=" + tokens},
		"open_nats":           {"--nats-embedded", "--token-file=" + tokens},
	} {
		_, stderr, code := effective(t, nil, args...)
		require.Equal(t, 2, code, "%s: %s", name, stderr)
		require.Contains(t, stderr, "insecure: "+name+" allows it")
		_, stderr, code = effective(t, nil, append(args, "--insecure="+name)...)
		require.Equal(t, 0, code, "%s: %s", name, stderr)
	}
	// So is every other file with a secret, wherever it is named.
	for field, args := range map[string][]string{
		"leases":      {"--leases=postgres://u@h/d?password_file=" + readable},
		"durable":     {"--durable=nats://u@h?sync=always&password_file=" + readable},
		"nats":        {"--nats=nats://u@h?sync=always&password_file=" + readable},
		"nats_params": {"--nats-embedded", "--nats-params=user=u&password_file=" + readable},
		"orgs.acme":   {"--org-key=acme=" + key},
	} {
		_, stderr, code := effective(t, nil, args...)
		require.Equal(t, 2, code, stderr)
		require.Contains(t, stderr, field+": "+args[len(args)-1][strings.LastIndex(args[len(args)-1], "=")+1:]+" can be read by every user")
		_, stderr, code = effective(t, nil, append(args, "--insecure=readable_secrets")...)
		require.Equal(t, 0, code, stderr)
	}
	_, stderr, code := effective(t, nil, "--insecure=everything")
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "insecure: ")
	p := run(t, writable, "--insecure=writable_state_root")
	require.Contains(t, p.stderr.String(), "insecure=writable_state_root", "it is said at the start")
	p.terminate()
	_, stderr, _ = effective(t, nil, "--leases=host=db password=hunter2")
	require.NotContains(t, stderr, "hunter2")
	_, stderr, _ = effective(t, nil, "--leases", "host=db", "password=hunter2")
	require.NotContains(t, stderr, "hunter2")
	_, stderr, code = effective(t, nil, "--config="+file(t, "node.yaml", "leases: postgres://a:hunter2@db/x\nttl: [\n"))
	require.Equal(t, 2, code)
	require.NotContains(t, stderr, "hunter2")
}
