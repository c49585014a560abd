package main_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors/client"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/nats/natsconn"
)

// peak returns the most memory that a process has had since its mark was set back, in MiB.
func (p *process) peak() int {
	p.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	require.NoError(p.t, err)
	m := regexp.MustCompile(`VmHWM:\s*(\d+) kB`).FindSubmatch(status)
	require.NotNil(p.t, m)
	kib, err := strconv.Atoi(string(m[1]))
	require.NoError(p.t, err)
	return kib >> 10
}

func (p *process) resetPeak() {
	p.t.Helper()
	require.NoError(p.t, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.cmd.Process.Pid), []byte("5"), 0))
}

// freePort returns a port that nobody listens on.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	return l.Addr().String()
}

// filled returns a document of nearly so many bytes: begin, as many parts as fit, joined by commas, and end.
func filled(size int, begin, part, end string) []byte {
	n := (size - len(begin) - len(end)) / (len(part) + 1)
	return []byte(begin + strings.TrimSuffix(strings.Repeat(part+",", n), ",") + end)
}

// Q3: what a document becomes is bounded, whatever it is made of and whichever way it comes in: no small text that
// becomes gigabytes, and no processor that is gone for minutes.
func TestQ3_DocumentsThatBecomeMuchInMemory(t *testing.T) {
	nats := freePort(t)
	p := run(t, t.TempDir(), "--nats-embedded", "--nats-listen="+nats, "--max-request-bytes=134217728")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, err := natsconn.Config{URL: "nats://" + nats}.Connect(ctx)
	require.NoError(t, err)
	defer conn.Close()
	subjects, err := client.NewSubjects("")
	require.NoError(t, err)
	require.Equal(t, 200, p.post(path(tenantOne)+"/events", `{"kind":"a"}`).status)

	frame := fmt.Sprintf(`{"v":%d,"action":"append","key":{"org":"acme","tenant":%q},"timeout_ms":60000,`, messages.WireVersion, tenantOne)
	parts := map[string]struct{ route, begin, part, end string }{
		"events":         {"/events", `"events":[`, `{}`, `]}`},
		"Events":         {"/events", `"Events":[`, `{}`, `]}`},
		"events, twice":  {"/events", `"events":[],"events":[`, `{"kind":""}`, `]}`},
		"arguments":      {"/query", `"sql":"SELECT 1","args":[`, `0`, `]}`},
		"blobs":          {"/query", `"sql":"SELECT 1","args":[`, `{"base64":""}`, `]}`},
		"one argument":   {"/query", `"sql":"SELECT 1","args":[[`, `0`, `]]}`},
		"members":        {"/events", ``, `"a":0`, `}`},
		"numbers":        {"/events", `"after":1`, strings.Repeat("0", 1<<20), `}`},
		"a long name":    {"/events", `"`, strings.Repeat("x", 1<<20), `":0}`},
		"nested deep":    {"/events", `"events":` + strings.Repeat("[", 1<<20), `0`, strings.Repeat("]", 1<<20) + `}`},
		"avoided owners": {"/events", `"avoid":[`, `""`, `]}`},
	}
	measure := func(name string, attack func()) {
		p.resetPeak()
		before, begun := p.peak(), time.Now()
		var group sync.WaitGroup
		for range 4 {
			group.Go(attack)
		}
		group.Wait()
		took, grown := time.Since(begun), p.peak()-before
		t.Logf("%s: %d MiB more, %v", name, grown, took.Round(time.Millisecond))
		require.Less(t, grown, 400, name)
		require.Less(t, took, time.Minute, name)
		require.Equal(t, 200, p.get("/healthz").status)
	}
	for name, tt := range parts {
		body := filled(16<<20, "{"+tt.begin, tt.part, tt.end)
		measure(name+" over HTTP", func() {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+path(tenantOne)+tt.route, bytes.NewReader(body))
			if err != nil {
				panic(err)
			}
			r.Header.Set("Content-Type", "application/json")
			response, err := http.DefaultClient.Do(r)
			if err == nil { // a connection may be closed before all was sent
				_ = response.Body.Close()
				if response.StatusCode < 400 {
					panic(response.Status)
				}
			}
		})
		message := filled(messages.MaxMessageBytes-1000, frame+tt.begin, tt.part, tt.end)
		for _, subject := range []string{subjects.AnyRequest(), subjects.Request(p.owner()), subjects.Members(), subjects.Member(p.owner())} {
			measure(name+" to "+subject[:20], func() {
				if subject == subjects.Members() {
					_ = conn.Publish(subject, message) // nobody answers
					return
				}
				msg, err := conn.RequestWithContext(ctx, subject, message)
				if err != nil {
					panic(err)
				}
				if !strings.Contains(string(msg.Data), `"error"`) {
					panic(string(msg.Data))
				}
			})
		}
	}
	require.Equal(t, 200, p.post(path(tenantOne)+"/events", `{"kind":"b"}`).status)
	p.terminate()
}

// owner returns the node's owner id.
func (p *process) owner() string {
	p.t.Helper()
	m := regexp.MustCompile(`"owner":"([^"]+)"`).FindSubmatch(p.get("/v1/tenants").body)
	require.NotNil(p.t, m)
	return string(m[1])
}
