package api_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/cmd/node/api"
	"github.com/leasehold/leasehold/messages"
)

// tight starts a node on which requests and answers have 8 MiB in all.
func tight(t *testing.T) *service {
	return newShared(t).start(t, "a", func(c *setup) { c.node.MaxRequestBytes, c.api.MaxBody = 8<<20, 8<<20 })
}

// Q3: the bodies of all requests together are bounded as they come in. Whoever announces much and sends little holds little.
func TestQ3_BodiesOfAllRequestsAreBounded(t *testing.T) {
	s := tight(t)
	body := `"` + strings.Repeat("x", 5<<20) + `"`
	take := func() answer { return s.post(tenantPath(tenantOne)+"/commands/take", body) }
	require.Equal(t, 200, take().status)

	var senders []*io.PipeWriter
	over := make(chan int, 64)
	send := func(n int) {
		r, w := io.Pipe()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+tenantPath(tenantOne)+"/commands/take", r)
		require.NoError(t, err)
		request.Header.Set("Content-Type", "application/json")
		request.ContentLength = 8 << 20
		go func() {
			response, err := http.DefaultTransport.RoundTrip(request)
			if err != nil {
				over <- 0
				return
			}
			_ = response.Body.Close()
			over <- response.StatusCode
		}()
		_, err = w.Write([]byte(strings.Repeat(" ", n)))
		require.NoError(t, err)
		senders = append(senders, w)
	}
	for range 32 { // 256 MiB are announced, 1 MiB is here
		send(32 << 10)
	}
	require.Equal(t, 200, take().status)
	send(6 << 20)
	s.until(func() bool { return s.node.Intake().Take(3<<20) != nil || give(s, 3<<20) })
	refusal := refused(t, take(), 429, messages.CodeOverloaded)
	require.Positive(t, refusal.RetryAfter)
	for _, w := range senders {
		_ = w.CloseWithError(io.ErrUnexpectedEOF)
		<-over
	}
	s.until(func() bool { return take().status == 200 })
	require.NoError(t, s.node.Intake().Take(8<<20), "everything was given back")
	s.node.Intake().Give(8 << 20)
}

// give gives back what a question of a test has taken.
func give(s *service, bytes int64) bool { s.node.Intake().Give(bytes); return false }

// Q3: so are the answers that slow readers have not taken.
func TestQ3_AnswersOfAllRequestsAreBounded(t *testing.T) {
	s := tight(t)
	query := `{"sql":"SELECT hex(zeroblob(2500000))"}` // 5 MB
	read := func() answer { return s.post(tenantPath(tenantOne)+"/query", query) }
	require.Equal(t, 200, s.post(tenantPath(tenantOne)+"/events", `{"kind":"first"}`).status)
	require.Equal(t, 200, read().status)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
	require.NoError(t, err)
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4096))
	_, err = io.WriteString(conn, "POST "+tenantPath(tenantOne)+"/query HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "+
		"39\r\n\r\n"+query)
	require.NoError(t, err)
	// Its answer has room, and is on its way: another read might have taken that.
	head := make([]byte, len("HTTP/1.1 200"))
	_, err = io.ReadFull(conn, head)
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 200", string(head))
	s.until(func() bool { return read().status == 429 })
	refused(t, read(), 429, messages.CodeOverloaded)
	// What a command did stands; its answer has no room.
	large := func(key string) answer {
		return s.post(tenantPath(tenantOne)+"/commands/large", "{}", header(api.IdempotencyHeader, key))
	}
	e := refused(t, large("once"), 504, messages.CodeUnknownOutcome)
	require.ErrorIs(t, e, messages.ErrOverloaded)
	require.Equal(t, 200, s.post(tenantPath(tenantOne)+"/events", `{"kind":"small"}`).status, "small ones have room")
	require.NoError(t, conn.Close())
	s.until(func() bool { return read().status == 200 })
	require.True(t, into[struct{ Duplicate bool }](t, large("once"), 200).Duplicate)
	require.Eventually(t, func() bool { return s.node.Intake().Take(8<<20) == nil }, time.Minute, time.Millisecond)
	s.node.Intake().Give(8 << 20)
}
