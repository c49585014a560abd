package docs

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/cmd/node/config"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/planted"
	"github.com/leasehold/leasehold/stores/dir"
)

var exampleKey = messages.Key{Org: "acme", Tenant: "t-3129611eac9be1d5994a2b216b06ed27"}

// twoEpochs lets a real node serve a tenant at epochs 1 and 2, and returns what the durable store
// holds then, by name below the tenant's prefix. stateRoot is where the node's files are.
func twoEpochs(t *testing.T) (objects map[string][]byte, stateRoot string) {
	t.Helper()
	stateRoot = t.TempDir()
	ctx := t.Context()
	node, err := actors.Start(ctx, actors.Config{NodeName: "node-a", StateRoot: stateRoot, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	tenant, err := node.Tenant(ctx, exampleKey.Org, exampleKey.Tenant)
	require.NoError(t, err)
	for range 2 {
		_, err = tenant.Append(ctx, messages.Event{Kind: "trip.logged", Payload: []byte(`{"km":12}`)})
		require.NoError(t, err)
		_, err = tenant.Snapshot(ctx)
		require.NoError(t, err)
	}
	require.NoError(t, tenant.Handoff(ctx))
	_, err = tenant.Append(ctx, messages.Event{Kind: "trip.logged"})
	require.NoError(t, err)
	require.NoError(t, node.Shutdown(context.Background()))

	store, err := dir.Open(ctx, dir.Config{Root: filepath.Join(stateRoot, "durable")})
	require.NoError(t, err)
	names, err := store.List(ctx, exampleKey.Prefix())
	require.NoError(t, err)
	objects = map[string][]byte{}
	for _, name := range names {
		data, ok, err := store.Get(ctx, name, 1<<30)
		require.NoError(t, err)
		require.True(t, ok)
		objects[strings.TrimPrefix(name, exampleKey.Prefix())] = data
	}
	require.NoError(t, store.Close())
	return objects, stateRoot
}

// The names and the fields in protocol.md are those that a node writes, in their order; numbers are
// numbers; and so is what it says about the image.
func TestProtocol_TheFormatIsWhatANodeWrites(t *testing.T) {
	objects, stateRoot := twoEpochs(t)
	var names []string
	for name := range objects {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, want := range []string{"e00000001/base.json", "e00000001/inc-000001.ltx", "e00000001/snap-000002.db", "e00000001/snap-000002.json",
		"e00000001/snap-000003.json", "e00000002/base.json", "e00000002/snap-000001.db", "e00000002/snap-000001.json"} {
		require.Contains(t, names, want)
	}
	examples := 0
	for _, s := range snippets(t, "docs/protocol.md") {
		if s.lang != "json" {
			continue
		}
		examples++
		name := map[string]string{
			"example: base": "e00000002/base.json", "example: manifest": "e00000001/snap-000002.json", "example: seal": "e00000001/snap-000003.json",
		}[s.marker]
		require.NotEmpty(t, name, s.marker)
		require.Equal(t, shape(t, objects[name]), shape(t, []byte(s.text)), "%s is not what a node writes: %s", s.marker, objects[name])
		require.NotContains(t, string(objects[name]), "\n")
		require.Less(t, len(objects[name]), 1000)
		// Each field is explained.
		doc := read(t, "docs/protocol.md")
		for _, field := range regexp.MustCompile(`"(\w+)":`).FindAllStringSubmatch(s.text, -1) {
			require.Contains(t, doc, "`"+field[1]+"`")
		}
	}
	require.Equal(t, 3, examples)

	image := objects["e00000001/snap-000002.db"]
	require.Equal(t, "SQLite format 3\x00", string(image[:16]))
	require.Equal(t, []byte{2, 2}, image[18:20], "the header says WAL mode")
	require.Equal(t, uint32(0x4c484c44), binary.BigEndian.Uint32(image[68:72]))
	leases, err := os.ReadFile(filepath.Join(stateRoot, "leases.db"))
	require.NoError(t, err)
	require.Equal(t, uint32(0x4c484c53), binary.BigEndian.Uint32(leases[68:72]))
	require.Equal(t, uint32(1), binary.BigEndian.Uint32(leases[60:64]))
}

// shape is the fields of a JSON object in their order, with the types of their values; the values of
// kind and version count too.
func shape(t *testing.T, data []byte) (out []string) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var last string
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(t, err)
		word := ""
		switch v := token.(type) {
		case json.Delim:
			word = v.String()
		case json.Number:
			word = "number"
		case string:
			// Whether it is a field or a value only the order tells; fields and kinds have these shapes.
			if word = "text"; regexp.MustCompile(`^[a-z_]+[0-9]*$`).MatchString(v) && len(v) < 20 {
				word = v
			}
		}
		if last == "version" {
			word = token.(json.Number).String()
		}
		out, last = append(out, word), word
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	require.NoError(t, err)
	return string(text)
}

// Every rule that can be left out stands in protocol.md with its name.
func TestProtocol_NamesEveryPlantedFault(t *testing.T) {
	doc := read(t, "docs/protocol.md")
	for _, f := range planted.All() {
		require.Contains(t, doc, "`"+f.String()+"`")
	}
}

// Every setting of a node stands in operations.md, and every metric that it shows; and no others.
func TestOperations_NamesEverySettingAndMetric(t *testing.T) {
	doc := read(t, "docs/operations.md")
	for _, name := range config.Names() {
		require.Contains(t, doc, "`"+name+"`", "a setting")
	}
	r := newRunner(t)
	shown := map[string]bool{}
	for _, name := range memberMetrics(t, r) {
		shown[name] = true
		require.Contains(t, doc, "`"+name, "a metric")
	}
	for _, m := range regexp.MustCompile("`(leasehold_\\w+)").FindAllStringSubmatch(doc, -1) {
		require.Contains(t, shown, m[1], "no node shows this metric")
	}
}

// memberMetrics returns the names of all metrics that a member of a cluster shows which has served tenants, and
// handed some of them to another member.
func memberMetrics(t *testing.T, r runner) (names []string) {
	t.Helper()
	nats := freeAddress(t, nil)
	first := r.start(t, t.TempDir(), "go run ./cmd/node run --node-name a --heartbeat 50ms --nats-embedded --nats-listen "+nats)
	defer first.stop(t)
	for i := range 16 { // of which a second node should have about half
		post(t, fmt.Sprintf("%s/v1/orgs/acme/tenants/t-%032x/events", first.address, i), `{"kind":"a"}`)
	}
	second := r.start(t, t.TempDir(), "go run ./cmd/node run --node-name b --heartbeat 50ms --nats nats://"+nats+"?sync=always")
	defer second.stop(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !slices.Contains(names, "leasehold_moves_total") {
		require.NoError(t, ctx.Err(), "no tenant has moved: %v", names)
		resp, err := http.Get(first.address + "/metrics")
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		names = nil
		for _, m := range regexp.MustCompile(`(?m)^# TYPE (leasehold_\w+) `).FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
	}
	return names
}

// Decision records are numbered without a gap and have their three parts.
func TestDecisions(t *testing.T) {
	files, err := filepath.Glob("decisions/*.md")
	require.NoError(t, err)
	for i, file := range files {
		require.Regexp(t, fmt.Sprintf(`^%04d-[a-z-]+\.md$`, i+1), filepath.Base(file))
		require.Regexp(t, fmt.Sprintf(`(?s)\A# %d\. .+\n## Context\n.+\n## Decision\n.+\n## Consequences\n`, i+1), read(t, "docs/"+file))
	}
}

// What testing.md and the README say about make is there.
func TestMakeTargets(t *testing.T) {
	makefile := read(t, "Makefile")
	for _, file := range []string{"docs/testing.md", "docs/operations.md", "README.md"} {
		for _, m := range regexp.MustCompile("`make ([a-z]+)`").FindAllStringSubmatch(read(t, file), -1) {
			require.Regexp(t, `(?m)^`+m[1]+`:.*## `, makefile, "make %s", m[1])
		}
	}
}

// Every command that operations.md lists is there.
func TestOperations_NamesCommands(t *testing.T) {
	r := newRunner(t)
	doc := read(t, "docs/operations.md")
	for _, command := range []string{"run", "config", "version", "lease show", "lease history", "snapshots list", "snapshots verify", "restore", "forget"} {
		require.Contains(t, strings.ReplaceAll(doc, "list|verify", "list` `node snapshots verify"), "`node "+command)
		r.run(t, t.TempDir(), "go run ./cmd/node "+command+" --help")
	}
}
