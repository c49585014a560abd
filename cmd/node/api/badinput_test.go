package api_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/cmd/node/api"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/storetest"
)

// A4, A5: a malformed id is refused before any store is asked and any file is made.
func TestA4_IDsOfEveryWrongShape(t *testing.T) {
	sh := newShared(t)
	s := sh.start(t, "a")
	var calls atomic.Int64
	count := func(e storetest.Event) {
		if e.Call.Op != storetest.OpForgotten { // the node's own sweep
			calls.Add(1)
		}
	}
	sh.leases.Observe(count)
	sh.durable.Observe(count)
	digits := strings.Repeat("a", 32)
	wrong := map[string][2]string{
		"org upper case":       {"Acme", "t-" + digits},
		"org leading dash":     {"-acme", "t-" + digits},
		"org underscore":       {"a_b", "t-" + digits},
		"org slash":            {"a/b", "t-" + digits},
		"org dots":             {"..", "t-" + digits},
		"org dot":              {".", "t-" + digits},
		"org space":            {"a b", "t-" + digits},
		"org trailing newline": {"acme\n", "t-" + digits},
		"org 64 characters":    {strings.Repeat("a", 64), "t-" + digits},
		"org NUL":              {"a\x00", "t-" + digits},
		"org broken UTF-8":     {"a\xff", "t-" + digits},
		"org umlaut":           {"ä", "t-" + digits},
		"org huge":             {strings.Repeat("a", 4000), "t-" + digits},
		"tenant one short":     {"acme", "t-" + digits[1:]},
		"tenant one long":      {"acme", "t-" + digits + "a"},
		"tenant not hex":       {"acme", "t-" + digits[1:] + "g"},
		"tenant upper case":    {"acme", "t-" + strings.ToUpper(digits)},
		"tenant no prefix":     {"acme", digits},
		"tenant newline":       {"acme", "t-" + digits + "\n"},
		"tenant dots":          {"acme", ".."},
		"tenant slash":         {"acme", "t-" + digits + "/x"},
		"tenant NUL":           {"acme", "t-" + digits + "\x00"},
		"tenant space":         {"acme", " t-" + digits},
	}
	for name, id := range wrong {
		t.Run(name, func(t *testing.T) {
			path := "/v1/orgs/" + url.PathEscape(id[0]) + "/tenants/" + url.PathEscape(id[1])
			// A path of dots alone is not encoded by PathEscape, and no path that the API has.
			path = strings.NewReplacer("/../", "/%2e%2e/", "/./", "/%2e/").Replace(path)
			path = strings.Replace(path, "tenants/..", "tenants/%2e%2e", 1)
			for _, a := range []answer{
				s.get(path), s.get(path + "/events"), s.post(path+"/events", `{"kind":"a"}`), s.post(path+"/query", `{"sql":"SELECT 1"}`),
				s.post(path+"/commands/record", `{}`), s.post(path+"/snapshot", ``), s.post(path+"/handoff", ``), s.post(path+"/abandon", ``), s.post(path+"/forget", ``),
			} {
				refused(t, a, 400, messages.CodeInvalidID)
			}
		})
	}
	for _, path := range []string{"/v1/orgs//tenants/t-" + digits, "/v1/orgs/../tenants/x", "/v1/orgs/acme/tenants/", "/v1/orgs/acme/./tenants/x", "//v1/tenants"} {
		refused(t, s.get(path), 400, messages.CodeInvalidArgument)
	}
	require.Zero(t, calls.Load(), "a store was asked about a malformed id")
	require.NoDirExists(t, sh.root+"/a/orgs")
}

func TestBadBodies_AreRefusedAndChangeNothing(t *testing.T) {
	s := newShared(t).start(t, "a")
	events := tenantPath(tenantOne) + "/events"
	into[appended](t, s.post(events, `{"kind":"first"}`), 200)
	deep := func(n int) string {
		return `{"kind":"a","payload":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`
	}
	long := strings.Repeat("x", 257)
	for name, c := range map[string]struct {
		body string
		code messages.Code
	}{
		"empty":                     {" ", messages.CodeInvalidArgument},
		"null":                      {"null", messages.CodeInvalidArgument},
		"array":                     {"[]", messages.CodeInvalidArgument},
		"string":                    {`"x"`, messages.CodeInvalidArgument},
		"cut off":                   {`{"kind":"a"`, messages.CodeInvalidArgument},
		"not JSON":                  {`{kind:a}`, messages.CodeInvalidArgument},
		"two documents":             {`{"kind":"a"}{"kind":"b"}`, messages.CodeInvalidArgument},
		"trailing garbage":          {`{"kind":"a"} x`, messages.CodeInvalidArgument},
		"trailing bracket":          {`{"kind":"a"}]`, messages.CodeInvalidArgument},
		"unknown field":             {`{"kind":"a","kindd":"b"}`, messages.CodeInvalidArgument},
		"unknown field, nested":     {`{"events":[{"kind":"a","seq":7}]}`, messages.CodeInvalidArgument},
		"wrong type":                {`{"kind":7}`, messages.CodeInvalidArgument},
		"no kind":                   {`{"payload":{}}`, messages.CodeInvalidArgument},
		"bad time":                  {`{"kind":"a","time":"yesterday"}`, messages.CodeInvalidArgument},
		"time of another type":      {`{"kind":"a","time":7}`, messages.CodeInvalidArgument},
		"one and many":              {`{"kind":"a","events":[{"kind":"b"}]}`, messages.CodeInvalidArgument},
		"no events":                 {`{"events":[]}`, messages.CodeInvalidArgument},
		"events of another type":    {`{"events":{"kind":"a"}}`, messages.CodeInvalidArgument},
		"one of many bad":           {`{"events":[{"kind":"a"},{"kind":""}]}`, messages.CodeInvalidArgument},
		"1001 events":               {`{"events":[` + strings.Repeat(`{"kind":"a"},`, 1000) + `{"kind":"a"}]}`, messages.CodeTooLarge},
		"kind too long":             {`{"kind":"` + long + `"}`, messages.CodeTooLarge},
		"key too long":              {`{"kind":"a","idem_key":"` + long + `"}`, messages.CodeTooLarge},
		"payload too large":         {`{"kind":"a","payload":"` + strings.Repeat("x", 1<<20) + `"}`, messages.CodeTooLarge},
		"payload 101 deep":          {deep(101), messages.CodeInvalidArgument},
		"payload a million deep":    {deep(1_000_000), messages.CodeInvalidArgument},
		"objects too deep":          {`{"kind":"a","payload":` + strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200) + "}", messages.CodeInvalidArgument},
		"NUL":                       {"{\"kind\":\"a\x00\"}", messages.CodeInvalidArgument},
		"NUL outside of strings":    {"{\"kind\":\"a\"}\x00", messages.CodeInvalidArgument},
		"NUL as an escape":          {`{"kind":"a\u0000"}`, messages.CodeInvalidArgument},
		"NUL in the payload":        {`{"kind":"a","payload":"\u0000"}`, messages.CodeInvalidArgument},
		"broken UTF-8":              {"{\"kind\":\"a\xff\"}", messages.CodeInvalidArgument},
		"broken UTF-8 in payload":   {"{\"kind\":\"a\",\"payload\":\"\xc3\"}", messages.CodeInvalidArgument},
		"overlong UTF-8":            {"{\"kind\":\"a\xc0\x80\"}", messages.CodeInvalidArgument},
		"lone surrogate":            {`{"kind":"a","idem_key":"\ud800"}`, messages.CodeInvalidArgument},
		"surrogates in wrong order": {`{"kind":"a","idem_key":"\udc00\ud800"}`, messages.CodeInvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			e := refused(t, s.post(events, c.body), api.Status(c.code), c.code)
			require.NotContains(t, e.Message, long)
		})
	}
	require.Len(t, into[page](t, s.get(events), 200).Events, 1)
	// The limits themselves, and what only looks like a mistake, are taken.
	for _, good := range []string{deep(100), `{"kind":"` + strings.Repeat("x", 256) + `"}`, `{"kind":"\ud83d\ude00","payload":"\\u0000"}`, " \n{\"kind\":\"a\"}\n "} {
		into[appended](t, s.post(events, good), 200)
	}
}

func TestBadHeaders_AreRefused(t *testing.T) {
	s := newShared(t).start(t, "a")
	events := tenantPath(tenantOne) + "/events"
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/json; charset=latin1", "application/json;;", "application/jsonx"} {
		refused(t, s.post(events, `{"kind":"a"}`, func(r *http.Request) { r.Header.Set("Content-Type", kind) }), 415, messages.CodeInvalidArgument)
	}
	into[appended](t, s.post(events, `{"kind":"a"}`, func(r *http.Request) { r.Header.Set("Content-Type", "application/json; charset=UTF-8") }), 200)
	for _, timeout := range []string{"", "2", "-1s", "0s", "soon", "1e9s", strings.Repeat("9", 40) + "s"} {
		refused(t, s.do(http.MethodGet, events, "", header(api.TimeoutHeader, timeout)), 400, messages.CodeInvalidArgument)
	}
	refused(t, s.do(http.MethodGet, events, "", header(api.TimeoutHeader, "1s"), header(api.TimeoutHeader, "2s")), 400, messages.CodeInvalidArgument)
	for _, key := range []string{"", "a\xffb"} {
		refused(t, s.post(events, `{"kind":"a"}`, header(api.IdempotencyHeader, key)), 400, messages.CodeInvalidArgument)
	}
	refused(t, s.post(events, `{"kind":"a"}`, header(api.IdempotencyHeader, strings.Repeat("k", 257))), 413, messages.CodeTooLarge)
	refused(t, s.post(events, `{"kind":"a","idem_key":"x"}`, header(api.IdempotencyHeader, "y")), 400, messages.CodeInvalidArgument)
	refused(t, s.post(events, `{"events":[{"kind":"a"}]}`, header(api.IdempotencyHeader, "y")), 400, messages.CodeInvalidArgument)
	for _, query := range []string{"after=-1", "after=x", "after=99999999999999999999", "limit=0", "limit=-5", "limit=1.5", "limit=", "aftr=1", "after=1&after=2", "limit=%00", "after=1;limit=2", "after=1&%zz=1"} {
		refused(t, s.get(events+"?"+query), 400, messages.CodeInvalidArgument)
	}
	refused(t, s.get("/v1/tenants?x=1"), 400, messages.CodeInvalidArgument)
	for _, order := range []string{"snapshot", "handoff", "abandon", "forget"} {
		for _, body := range []string{`{"force":true}`, `[]`, `{} {}`, "\xff"} {
			refused(t, s.post(tenantPath(tenantOne)+"/"+order, body), 400, messages.CodeInvalidArgument)
		}
	}
	require.Len(t, into[page](t, s.get(events), 200).Events, 1)
}

// What is not a plain read is refused, whatever it is wrapped in, and changes nothing.
func TestQuery_RefusesEverythingButReads(t *testing.T) {
	sh := newShared(t)
	s := sh.start(t, "a", func(c *setup) { c.node.Limits.QueryTimeout = 500 * time.Millisecond; c.node.Limits.MaxRows = 100 })
	into[appended](t, s.post(tenantPath(tenantOne)+"/events", `{"kind":"only"}`), 200)
	query := func(sql string, args ...string) answer {
		return s.post(tenantPath(tenantOne)+"/query", fmt.Sprintf(`{"sql":%q,"args":[%s]}`, sql, strings.Join(args, ",")))
	}
	for _, sql := range []string{
		"INSERT INTO events(kind) VALUES ('x')", "UPDATE events SET kind = 'x'", "DELETE FROM events", "DROP TABLE events", "CREATE TABLE t(x)",
		"CREATE TEMP TABLE t(x)", "ATTACH '" + sh.root + "/evil.db' AS evil", "ATTACH ':memory:' AS m", "DETACH main", "PRAGMA journal_mode = DELETE",
		"PRAGMA writable_schema = 1", "PRAGMA user_version", "VACUUM INTO '" + sh.root + "/evil.db'", "VACUUM", "BEGIN", "COMMIT", "SAVEPOINT s", "REINDEX", "ANALYZE",
		"WITH x AS (SELECT 1) DELETE FROM events", "EXPLAIN DELETE FROM events", "SELECT 1; DELETE FROM events",
		"/* a comment */ DELETE FROM events RETURNING *",
	} {
		a := query(sql)
		require.GreaterOrEqual(t, a.status, 400, "%s answered %s", sql, a.body)
		require.Contains(t, []int{400}, a.status, "%s answered %s", sql, a.body)
		require.NoFileExists(t, sh.root+"/evil.db")
	}
	for _, sql := range []string{"SELECT load_extension('/tmp/x')", "SELEC 1", "SELECT * FROM nowhere", "SELECT ?", "SELECT writefile('/tmp/x', 'y')"} {
		a := query(sql)
		require.Equal(t, 400, a.status, "%s answered %s", sql, a.body)
		require.NotContains(t, string(a.body), "INSERT")
	}
	for _, bad := range []string{`[1]`, `{"base64":7}`, `{"base64":"!"}`, `{"base64":"","x":1}`, `{}`, `"\u0000"`, `1e999`} {
		refused(t, query("SELECT ?", bad), 400, messages.CodeInvalidArgument)
	}
	refused(t, query("SELECT '"+strings.Repeat("x", 300<<10)+"'"), 413, messages.CodeTooLarge)
	refused(t, s.post(tenantPath(tenantOne)+"/query", `{"sql":""}`), 400, messages.CodeInvalidArgument)
	// A read that never ends is ended; one with too many rows is cut, and says so.
	refused(t, query("WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r"), 408, messages.CodeDeadlineExceeded)
	require.Contains(t, string(query("WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n FROM r").body), `"truncated":true`)
	got := into[page](t, s.get(tenantPath(tenantOne)+"/events"), 200)
	require.Len(t, got.Events, 1)
	require.Equal(t, "only", got.Events[0].Kind)
}

// A body of 100 MB is refused without being read: declared, before the first byte of it; undeclared, at the limit.
func TestHugeBodies_AreNotRead(t *testing.T) {
	s := newShared(t).start(t, "a")
	const huge = 100 << 20
	t.Run("declared", func(t *testing.T) {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
		require.NoError(t, err)
		defer func() { require.NoError(t, conn.Close()) }()
		_, err = fmt.Fprintf(conn, "POST %s/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", tenantPath(tenantOne), huge)
		require.NoError(t, err)
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		refused(t, answer{status: response.StatusCode, body: body}, 413, messages.CodeTooLarge)
	})
	t.Run("undeclared", func(t *testing.T) {
		reader := &counting{left: huge}
		// Without the validating transport, which would read it all.
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+tenantPath(tenantOne)+"/events", reader)
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json")
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		response, err := client.Do(r)
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		refused(t, answer{status: response.StatusCode, body: body}, 413, messages.CodeTooLarge)
		require.Less(t, reader.read.Load(), int64(32<<20), "most of the body was never taken")
	})
	into[appended](t, s.post(tenantPath(tenantOne)+"/events", `{"kind":"a"}`), 200)
}

// counting is a long JSON string.
type counting struct {
	left int64
	read atomic.Int64
}

func (c *counting) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, io.EOF
	}
	n := copy(p, strings.Repeat("x", int(min(int64(len(p)), c.left))))
	c.left -= int64(n)
	c.read.Add(int64(n))
	return n, nil
}
