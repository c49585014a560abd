package servers_test

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/stores/storetest/servers"
)

// client is one connection to the echo server, by way of a proxy.
type client struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func dial(t *testing.T, proxy *servers.Proxy) *client {
	t.Helper()
	conn, err := net.Dial("tcp", proxy.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return &client{t, conn, bufio.NewReader(conn)}
}

// ask sends a line and waits for it to come back.
func (c *client) ask(line string) error {
	c.t.Helper()
	if _, err := io.WriteString(c.conn, line+"\n"); err != nil {
		return err
	}
	got, err := c.in.ReadString('\n')
	if err == nil {
		require.Equal(c.t, line+"\n", got)
	}
	return err
}

func proxied(t *testing.T) (proxy *servers.Proxy, heard chan string) {
	t.Helper()
	addr, heard := echo(t)
	proxy, err := servers.NewProxy(addr)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxy.Close()) })
	return proxy, heard
}

func TestFaults_Refuse(t *testing.T) {
	proxy, heard := proxied(t)
	c := dial(t, proxy)
	require.NoError(t, c.ask("one"))
	require.Equal(t, "one", <-heard)
	require.Zero(t, proxy.Hits())

	proxy.Set(servers.Faults{Refuse: true})
	require.NoError(t, c.ask("two"), "who is connected stays connected")
	require.Equal(t, "two", <-heard)
	proxy.CutAll()
	require.Error(t, c.ask("three"))
	// The reset may come before the dialing has ended, or after it.
	if conn, err := net.Dial("tcp", proxy.Addr()); err == nil {
		_, err = conn.Read(make([]byte, 1))
		require.Error(t, err)
		require.NoError(t, conn.Close())
	}
	require.Empty(t, heard)
	require.Equal(t, servers.Hits{Connections: 2}, proxy.Hits())

	proxy.Set(servers.Faults{})
	require.NoError(t, dial(t, proxy).ask("five"))
}

func TestFaults_Silence(t *testing.T) {
	proxy, heard := proxied(t)
	lost, idle := dial(t, proxy), dial(t, proxy)
	require.NoError(t, lost.ask("one"))
	require.NoError(t, idle.ask("two"))
	require.Equal(t, "one", <-heard)
	require.Equal(t, "two", <-heard)

	proxy.Set(servers.Faults{Silence: true})
	failed := make(chan error, 1)
	go func() {
		_, err := io.WriteString(lost.conn, "three\n")
		if err == nil {
			_, err = lost.in.ReadByte()
		}
		failed <- err
	}()
	require.Equal(t, "three", <-heard, "requests arrive")
	require.Eventually(t, func() bool { return proxy.Hits() == servers.Hits{Answers: 1, Bytes: int64(len("three\n"))} }, time.Minute, time.Millisecond)

	proxy.Set(servers.Faults{})
	require.NoError(t, idle.ask("four"), "a connection that lost nothing goes on")
	require.Equal(t, "four", <-heard)
	_, err := io.WriteString(lost.conn, "five\n")
	require.NoError(t, err)
	require.Equal(t, "five", <-heard, "one that lost an answer stays silent")
	require.Eventually(t, func() bool { return proxy.Hits().Answers == 2 }, time.Minute, time.Millisecond)
	select {
	case err := <-failed:
		t.Fatalf("and open, but it ended: %v", err)
	default:
	}
	require.NoError(t, dial(t, proxy).ask("six"))
	proxy.CutAll()
	require.ErrorIs(t, <-failed, io.EOF)
}

func TestFaults_Lose(t *testing.T) {
	proxy, heard := proxied(t)
	proxy.Set(servers.Faults{Lose: 0.5, Seed: 1})
	answered, lost := 0, 0
	c := dial(t, proxy)
	for range 100 {
		err := c.ask("it")
		require.Equal(t, "it", <-heard, "the server did what it was asked for")
		if err == nil {
			answered++
			continue
		}
		require.ErrorIs(t, err, io.EOF, "the connection is closed")
		lost++
		c = dial(t, proxy)
	}
	require.Greater(t, answered, 20)
	require.Greater(t, lost, 20)
	require.Equal(t, lost, proxy.Hits().Answers)
	require.Equal(t, int64(lost*len("it\n")), proxy.Hits().Bytes)
}

func TestFaults_Delay(t *testing.T) {
	const least, most = 40 * time.Millisecond, 60 * time.Millisecond
	proxy, heard := proxied(t)
	proxy.Set(servers.Faults{DelayMin: least, DelayMax: most, Seed: 1})
	c := dial(t, proxy)
	begun := time.Now()
	require.NoError(t, c.ask("one"))
	require.Equal(t, "one", <-heard)
	require.GreaterOrEqual(t, time.Since(begun), least)

	// Answers that are held up together keep their order.
	for _, line := range []string{"two", "three", "four"} {
		_, err := io.WriteString(c.conn, line+"\n")
		require.NoError(t, err)
		require.Equal(t, line, <-heard, "requests are not held up")
	}
	for _, line := range []string{"two\n", "three\n", "four\n"} {
		got, err := c.in.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, line, got)
	}
	hits := proxy.Hits()
	require.GreaterOrEqual(t, hits.Answers, 2)
	require.LessOrEqual(t, hits.Answers, 4)
	require.Zero(t, hits.Connections)

	// Who is cut off does not wait for what is held up.
	proxy.Set(servers.Faults{DelayMin: time.Hour, DelayMax: time.Hour})
	_, err := io.WriteString(c.conn, "five\n")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return proxy.Hits().Answers == hits.Answers+1 }, time.Minute, time.Millisecond)
	proxy.CutAll()
	_, err = c.in.ReadByte()
	require.Error(t, err)
}

func TestFaults_ResetWithin(t *testing.T) {
	proxy, heard := proxied(t)
	done := make(chan struct{})
	defer close(done)
	go func() { // what arrives is not looked at here
		for {
			select {
			case <-heard:
			case <-done:
				return
			}
		}
	}()
	open := dial(t, proxy)
	proxy.Set(servers.Faults{ResetWithin: 4 << 10, Seed: 1})
	passed := 0
	c, resets, line := open, 0, strings.Repeat("x", 100)
	for resets < 30 {
		if err := c.ask(line); err == nil {
			passed++
			require.Less(t, passed, 30*4<<10/200, "no connection lives longer than it may")
			continue
		}
		resets++
		require.Eventually(t, func() bool { return proxy.Hits().Connections == resets }, time.Minute, time.Millisecond)
		c = dial(t, proxy)
	}
	require.Positive(t, passed, "some of them live for a while")
	require.Positive(t, proxy.Hits().Bytes)

	proxy.Set(servers.Faults{})
	for range 100 {
		require.NoError(t, c.ask(line))
	}
}

func TestHits(t *testing.T) {
	a, b := servers.Hits{Connections: 1, Answers: 2, Bytes: 3}, servers.Hits{Connections: 10, Answers: 20, Bytes: 30}
	require.Equal(t, servers.Hits{Connections: 11, Answers: 22, Bytes: 33}, a.Plus(b))
	require.Equal(t, b, a.Plus(b).Minus(a))
}
