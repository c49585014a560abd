package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/cmd/node/api"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/dir"
	"github.com/leasehold/leasehold/stores/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const tenantID = "t-3129611eac9be1d5994a2b216b06ed27"

var key = messages.Key{Org: "acme", Tenant: tenantID}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "events.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// command runs the program as main does.
func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), append([]string{"--org", "acme", "--tenant", tenantID}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

func TestLoadIntoAnEmbeddedNode(t *testing.T) {
	text := strings.Join([]string{
		"\xef\xbb\xbf" + `{"kind":"a","payload":{"n":1}}`,
		`{"kind":"a","payload":{"n":2}}` + "\r",
		``,
		`{"kind":"broken ` + "\xff" + `"}`,
		`{"kind":"a","payload":{"n":1}}`, // as the first line: another event
		`not json`,
		`{"kind":"a","idem_key":"own","payload":"` + strings.Repeat("x", 1000) + `"}`,
		`{"kind":"a","idem_key":"own","payload":"` + strings.Repeat("x", 1000) + `"}`, // the file says itself that this is the same event
		`{"kind":"huge","payload":"` + strings.Repeat("x", maxLine) + `"}`,
		`{"kind":"a","color":"red"}`,
		`{"kind":"a"} {"kind":"b"}`,
		`{"payload":1}`,
		`{"kind":"deep","payload":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`,
		`{"kind":"z"}`,
		`{"kind":"cut off","payl`,
	}, "\n")
	path, root := writeFile(t, text), t.TempDir()
	code, out, errs := command(t, "--state-root", root, "--batch", "2", path)
	require.Equal(t, 1, code, errs)
	require.Equal(t, "6 events, of which 1 were there already; 8 bad lines\n", out)
	for _, want := range []string{
		":4: it is not valid UTF-8\n", ":6: it is not JSON\n", ":9: the line is too long", ":10: it is not an event", ":11: there is something after",
		":12: event has no kind", ":13: payload is nested deeper", ":15: the last line is cut off",
	} {
		require.Contains(t, errs, path+want)
	}
	require.NotContains(t, errs, "red", "what a line holds is not shown")

	code, out, _ = command(t, "--state-root", root, path)
	require.Equal(t, 1, code)
	require.Equal(t, "6 events, of which 6 were there already; 8 bad lines\n", out)
	require.Equal(t, []string{"a", "a", "a", "a", "z"}, kindsIn(t, root))
}

func kindsIn(t *testing.T, root string) (kinds []string) {
	t.Helper()
	node, err := actors.Start(t.Context(), actors.Config{StateRoot: root, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer func() { require.NoError(t, node.Shutdown(context.Background())) }()
	tenant, err := node.Tenant(t.Context(), key.Org, key.Tenant)
	require.NoError(t, err)
	events, more, err := tenant.Events(t.Context(), 0, 0)
	require.NoError(t, err)
	require.False(t, more)
	for _, e := range events {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

// A file that was cut off in the middle of a line is loaded, and later the whole file.
func TestALoadIsResumed(t *testing.T) {
	var text strings.Builder
	for i := range 1200 {
		fmt.Fprintf(&text, `{"kind":"k%d","payload":{"i":%d}}`+"\n", i, i)
	}
	whole := text.String()
	path, root := writeFile(t, whole[:len(whole)/2+3]), t.TempDir()
	code, out, _ := command(t, "--state-root", root, path)
	require.Equal(t, 1, code)
	var loaded, there, bad int
	_, err := fmt.Sscanf(out, "%d events, of which %d were there already; %d bad lines", &loaded, &there, &bad)
	require.NoError(t, err)
	require.Equal(t, []int{0, 1}, []int{there, bad})

	require.NoError(t, os.WriteFile(path, []byte(whole), 0o600))
	code, out, errs := command(t, "--state-root", root, path)
	require.Equal(t, 0, code, errs)
	require.Equal(t, fmt.Sprintf("1200 events, of which %d were there already; 0 bad lines\n", loaded), out)
	kinds := kindsIn(t, root)
	require.Len(t, kinds, 1200)
	require.Equal(t, "k1199", kinds[1199])
}

func TestOverHTTP(t *testing.T) {
	root := t.TempDir()
	leases, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(root, "leases.db")})
	require.NoError(t, err)
	durable, err := dir.Open(t.Context(), dir.Config{Root: filepath.Join(root, "durable")})
	require.NoError(t, err)
	quiet := slog.New(slog.DiscardHandler)
	node, err := actors.Start(t.Context(), actors.Config{StateRoot: root, Leases: leases, Durable: durable, Log: quiet})
	require.NoError(t, err)
	token := strings.Repeat("k", 40)
	// A body limit that the loader knows nothing of: it must cut its batches.
	handler, err := api.New(api.Config{Node: node, Leases: leases, Durable: durable, Tokens: func() api.Tokens { return api.NewTokens(token) }, MaxBody: 3000, Log: quiet})
	require.NoError(t, err)
	server := httptest.NewServer(handler)
	defer func() {
		server.Close()
		require.NoError(t, errors.Join(node.Shutdown(context.Background()), leases.Close(), durable.Close()))
	}()
	tokens := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(tokens, []byte(token+"\n"), 0o600))

	text := strings.Repeat(`{"kind":"a","payload":"`+strings.Repeat("<", 200)+`"}`+"\n", 40) +
		`{"kind":"too large for this node","payload":"` + strings.Repeat("x", 4000) + `"}` + "\n" + `{"kind":"z"}`
	path := writeFile(t, text)
	code, out, errs := command(t, "--url", server.URL+"/", "--token-file", tokens, path)
	require.Equal(t, 1, code, errs)
	require.Equal(t, "41 events, of which 0 were there already; 1 bad lines\n", out)
	require.Contains(t, errs, path+":41: ")
	code, out, _ = command(t, "--url", server.URL, "--token-file", tokens, path)
	require.Equal(t, 1, code)
	require.Equal(t, "41 events, of which 41 were there already; 1 bad lines\n", out)

	code, _, errs = command(t, "--url", server.URL, path)
	require.Equal(t, 2, code, "without the token")
	require.Contains(t, errs, "unauthorized")
}

func TestWhatCannotWorkFails(t *testing.T) {
	path := writeFile(t, `{"kind":"a"}`)
	for name, args := range map[string][]string{
		"no file":         {"--state-root", t.TempDir(), path + ".no"},
		"a bad tenant":    {"--tenant", "t-1", "--state-root", t.TempDir(), path},
		"a bad batch":     {"--batch", "0", "--state-root", t.TempDir(), path},
		"nobody listens":  {"--url", "http://127.0.0.1:1", "--patience", "1ms", path},
		"an unknown flag": {"--nonsense", path},
		"a folder":        {"--state-root", t.TempDir(), t.TempDir()},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, errs := command(t, args...)
			require.Equal(t, 2, code)
			require.NotEmpty(t, errs)
		})
	}
	code, out, _ := command(t, "--help")
	require.Equal(t, 0, code)
	require.Contains(t, out, "--state-root")
}

// crashing is a Ledger whose node dies once, after a number of appends, with what no snapshot holds.
type crashing struct {
	t      *testing.T
	root   string
	node   *actors.Node
	tenant *actors.Tenant
	after  int
}

func (c *crashing) start() {
	var err error
	c.node, err = actors.Start(c.t.Context(), actors.Config{
		NodeName: "n", StateRoot: c.root, TTL: time.Second, SnapshotEvery: time.Hour, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(c.t, err)
	c.tenant, err = c.node.Tenant(c.t.Context(), key.Org, key.Tenant)
	require.NoError(c.t, err)
}

func (c *crashing) AppendAt(ctx context.Context, events []messages.Event) ([]messages.Appended, uint64, error) {
	if c.after--; c.after == 0 {
		require.NoError(c.t, c.node.Abort())
		c.start()
	}
	return c.tenant.AppendAt(ctx, events)
}

func (c *crashing) Snapshot(ctx context.Context) (messages.Manifest, error) {
	return c.tenant.Snapshot(ctx)
}

// The node crashes in the middle of a load, and loses batches that it had acknowledged. The loader
// sees the epoch change, and goes through the file again.
func TestACrashOfTheNodeDuringALoadLosesNothing(t *testing.T) {
	var text strings.Builder
	for i := range 100 {
		fmt.Fprintf(&text, `{"kind":"k%d"}`+"\n", i)
	}
	c := &crashing{t: t, root: t.TempDir(), after: 6}
	c.start()
	defer func() { require.NoError(t, c.node.Shutdown(context.Background())) }()
	var passes int
	l := Loader{Ledger: c, Batch: 10, Patience: time.Minute, Bad: func(int, string) {}, Progress: func(int64) {}}
	sum, err := l.Load(t.Context(), "f", func() (io.ReadCloser, error) {
		passes++
		return io.NopCloser(strings.NewReader(text.String())), nil
	})
	require.NoError(t, err)
	require.Equal(t, 2, passes)
	require.Equal(t, Summary{Events: 100, Saved: messages.Position{Epoch: 2, Snapshot: sum.Saved.Snapshot}}, sum)
	events, _, err := c.tenant.Events(t.Context(), 0, 0)
	require.NoError(t, err)
	kinds := map[string]bool{}
	for _, e := range events {
		require.False(t, kinds[e.Kind], "%s is there twice", e.Kind)
		kinds[e.Kind] = true
	}
	require.Len(t, kinds, 100)
}

// Whatever a file holds: every byte belongs to one line, numbers rise, and an event is valid.
func FuzzReader(f *testing.F) {
	f.Add([]byte("{\"kind\":\"a\"}\n\n{\"kind\":\"b\",\"idem_key\":\"x\"}"))
	f.Add([]byte("\xef\xbb\xbf{\"kind\":\"a\"}\r\n\xff\n{\"kin"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := NewReader("f", bytes.NewReader(data))
		number, keys := 0, map[string]int{}
		for {
			l, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			require.Greater(t, l.Number, number)
			number = l.Number
			if l.Bad != "" {
				continue
			}
			require.NoError(t, l.Event.Validate())
			require.NotEmpty(t, l.Event.IdemKey)
			if strings.HasPrefix(l.Event.IdemKey, "jsonl-") && !bytes.Contains(data, []byte("jsonl-")) {
				require.NotContains(t, keys, l.Event.IdemKey)
				keys[l.Event.IdemKey] = l.Number
			}
		}
		require.Equal(t, int64(len(data)), r.offset)
	})
}
