package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/actors/client"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

// A value of SQL is the same by every way in and out: of a transaction, of the owner's own handle, of a client over NATS and of HTTP, at
// the owner and at another node.
func TestQ4_ValuesByEveryWay(t *testing.T) {
	nodes := startClusterWith(t, func(c *setup) {
		c.node.Migrations = []ledgeractor.Migration{{Version: 1, Name: "vals", SQL: "CREATE TABLE vals (id INTEGER PRIMARY KEY, v)"}}
	}, "a", "b")
	path := tenantPath(tenantOne)
	owner, other, tenant, remote := ownerAndOther(t, nodes)
	overHTTP := func(s *service) func(sql string, args ...any) [][]any {
		return func(sql string, args ...any) [][]any {
			raw := make([]json.RawMessage, len(args))
			for i, arg := range args {
				var err error
				raw[i], err = messages.EncodeValue(arg)
				require.NoError(t, err)
			}
			body, err := json.Marshal(map[string]any{"sql": sql, "args": raw})
			require.NoError(t, err)
			return into[messages.Result](t, s.post(path+"/query", string(body)), 200).Rows
		}
	}
	ways := map[string]func(sql string, args ...any) [][]any{
		"the owner's handle": func(sql string, args ...any) [][]any {
			r, err := tenant.Query(t.Context(), sql, args...)
			require.NoError(t, err)
			return r.Rows
		},
		"a transaction": func(sql string, args ...any) (out [][]any) {
			require.NoError(t, tenant.Run(t.Context(), func(tx *ledgeractor.Tx) error {
				row := make([]any, 3)
				err := tx.QueryRowContext(t.Context(), sql, args...).Scan(&row[0], &row[1], &row[2])
				out = [][]any{row}
				return err
			}))
			return out
		},
		"a client over NATS": func(sql string, args ...any) [][]any {
			r, err := remote.Query(t.Context(), sql, args...)
			require.NoError(t, err)
			return r.Rows
		},
		"HTTP at the owner":    overHTTP(owner),
		"HTTP at another node": overHTTP(other),
	}
	at := time.Date(2026, 1, 2, 4, 4, 5, 6789, time.FixedZone("", 3600))
	for i, tc := range []struct {
		in   any
		want any
		kind string
	}{
		{nil, nil, "null"},
		{int64(math.MaxInt64), int64(math.MaxInt64), "integer"},
		{int64(math.MinInt64), int64(math.MinInt64), "integer"},
		{int64(1<<53 + 1), int64(1<<53 + 1), "integer"},
		{true, int64(1), "integer"},
		{100.0, 100.0, "real"},
		{0.1, 0.1, "real"},
		{1e300, 1e300, "real"},
		{math.SmallestNonzeroFloat64, math.SmallestNonzeroFloat64, "real"},
		{math.NaN(), nil, "null"},
		{math.Inf(1), math.Inf(1), "real"},
		{math.Inf(-1), math.Inf(-1), "real"},
		{"", "", "text"},
		{"<ü>&\u2028\U0001f600\"\\\n", "<ü>&\u2028\U0001f600\"\\\n", "text"},
		{"a\x00b", "a\x00b", "text"},
		{"\xff\xfe", "\xff\xfe", "text"},
		{"\xed\xa0\x80", "\xed\xa0\x80", "text"},
		{"100", "100", "text"},
		{[]byte{}, []byte{}, "blob"},
		{[]byte{0, 255}, []byte{0, 255}, "blob"},
		{bytes.Repeat([]byte{0xff, 0}, 1<<19), bytes.Repeat([]byte{0xff, 0}, 1<<19), "blob"},
		{[]byte(nil), nil, "null"},
		{at, "2026-01-02T03:04:05.000006Z", "text"},
		{time.Time{}, "0001-01-01T00:00:00.000000Z", "text"},
		{strings.Repeat("é", 1<<18), strings.Repeat("é", 1<<18), "text"},
	} {
		require.NoError(t, tenant.Run(t.Context(), func(tx *ledgeractor.Tx) error {
			_, err := tx.ExecContext(tx.Context(), "INSERT INTO vals VALUES (?, ?)", i, tc.in)
			return err
		}))
		for way, ask := range ways {
			name := fmt.Sprintf("%d: %.40v by %s", i, tc.in, way)
			require.Equal(t, [][]any{{tc.want, tc.kind, int64(1)}}, ask("SELECT v, typeof(v), 1 FROM vals WHERE id = ?", i), name)
			require.Equal(t, [][]any{{tc.want, tc.kind, int64(1)}}, ask("SELECT ?1, typeof(?1), (SELECT v IS ?1 FROM vals WHERE id = ?2)", tc.in, i), name)
			// What came out goes in.
			require.Equal(t, [][]any{{tc.want, tc.kind, int64(1)}}, ask("SELECT ?1, typeof(?1), (SELECT v IS ?1 FROM vals WHERE id = ?2)", tc.want, i), name)
		}
	}
	for way, ask := range ways { // no equality tells them apart
		zero := ask("SELECT ?, 1, 1", math.Copysign(0, -1))[0][0]
		require.Zero(t, zero, way)
		require.True(t, math.Signbit(zero.(float64)), way)
	}
}

// The time that an event has is the one that was given, also the year 1, which is Go's zero; only where none was given it is that of the append.
func TestQ4_TimesOfEventsByEveryWay(t *testing.T) {
	nodes := startClusterWith(t, func(*setup) {}, "a", "b")
	path := tenantPath(tenantOne)
	owner, other, tenant, remote := ownerAndOther(t, nodes)
	overHTTP := func(s *service, one bool) func(messages.Event) int64 {
		return func(e messages.Event) int64 {
			body, err := json.Marshal(e)
			if !one {
				body, err = json.Marshal(map[string]any{"events": []messages.Event{e}})
			}
			require.NoError(t, err)
			out := into[struct{ Events []messages.Appended }](t, s.post(path+"/events", string(body)), 200)
			return out.Events[0].Seq
		}
	}
	in := map[string]func(messages.Event) int64{
		"the owner's handle": func(e messages.Event) int64 {
			out, err := tenant.Append(t.Context(), e)
			require.NoError(t, err)
			return out.Seq
		},
		"a transaction": func(e messages.Event) (seq int64) {
			require.NoError(t, tenant.Run(t.Context(), func(tx *ledgeractor.Tx) error {
				out, err := tx.Append(tx.Context(), e)
				seq = out.Seq
				return err
			}))
			return seq
		},
		"a client over NATS": func(e messages.Event) int64 {
			out, err := remote.Append(t.Context(), e)
			require.NoError(t, err)
			return out.Seq
		},
		"HTTP at the owner": overHTTP(owner, true), "HTTP at another node": overHTTP(other, true), "HTTP, in a list": overHTTP(other, false),
	}
	out := map[string]func(seq int64) messages.StoredEvent{
		"the owner's handle": func(seq int64) messages.StoredEvent {
			events, _, err := tenant.Events(t.Context(), seq-1, 1)
			require.NoError(t, err)
			return events[0]
		},
		"a client over NATS": func(seq int64) messages.StoredEvent {
			events, _, err := remote.Events(t.Context(), seq-1, 1)
			require.NoError(t, err)
			return events[0]
		},
		"HTTP at another node": func(seq int64) messages.StoredEvent {
			return into[struct{ Events []messages.StoredEvent }](t, other.get(fmt.Sprintf("%s/events?after=%d&limit=1", path, seq-1)), 200).Events[0]
		},
	}
	begun := time.Now().UTC().Truncate(time.Microsecond)
	for _, at := range []*time.Time{
		nil, {}, new(time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)), new(time.Date(1, 1, 1, 1, 0, 0, 0, time.FixedZone("", 3600))), new(time.Unix(0, 0)),
		new(time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC)),
	} {
		for wayIn, appendIt := range in {
			seq := appendIt(messages.Event{Kind: "timed", Time: at})
			for wayOut, read := range out {
				got := read(seq)
				require.NotNil(t, got.Time, "%v in by %s, out by %s", at, wayIn, wayOut)
				if at == nil {
					require.False(t, got.Time.Before(begun), "%s in by %s, out by %s", got.Time, wayIn, wayOut)
				} else {
					require.Equal(t, at.UTC(), got.Time.UTC(), "in by %s, out by %s", wayIn, wayOut)
				}
				// What came out goes in, with its time.
				if wayIn == "HTTP at the owner" {
					again := read(appendIt(got.Event))
					require.Equal(t, got.Time.UTC(), again.Time.UTC())
				}
			}
		}
	}
}

// ownerAndOther has the tenant opened, and returns the node that serves it with its own handle, and another node with a remote one.
func ownerAndOther(t *testing.T, nodes []*service) (owner, other *service, tenant *actors.Tenant, remote *client.Tenant) {
	t.Helper()
	path := tenantPath(tenantOne)
	require.Equal(t, 200, nodes[0].post(path+"/events", `{"kind":"a"}`).status)
	owner, other = nodes[0], nodes[1]
	if !into[view](t, owner.get(path), 200).Open {
		owner, other = other, owner
	}
	tenant, err := owner.node.Tenant(t.Context(), "acme", tenantOne)
	require.NoError(t, err)
	remote, err = other.member.Tenant("acme", tenantOne)
	require.NoError(t, err)
	return owner, other, tenant, remote
}
