package servers_test

import (
	"bufio"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/stores/storetest/servers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo is a server that answers each line with itself, and tells what it heard.
func echo(t *testing.T) (addr string, heard chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	heard = make(chan string, 100)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer conn.Close()
				lines := bufio.NewScanner(conn)
				for lines.Scan() {
					heard <- lines.Text()
					if _, err := io.WriteString(conn, lines.Text()+"\n"); err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() { require.NoError(t, l.Close()); running.Wait() })
	return l.Addr().String(), heard
}

func TestProxy_CutsDropsAndCounts(t *testing.T) {
	addr, heard := echo(t)
	proxy, err := servers.NewProxy(addr)
	require.NoError(t, err)
	defer func() { require.NoError(t, proxy.Close()) }()
	dial := func() (ask func(string) error, conn net.Conn) {
		conn, err := net.Dial("tcp", proxy.Addr())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		answers := bufio.NewReader(conn)
		return func(line string) error {
			if _, err := io.WriteString(conn, line+"\n"); err != nil {
				return err
			}
			got, err := answers.ReadString('\n')
			if err == nil && got != line+"\n" {
				t.Errorf("asked %q, answered %q", line, got)
			}
			return err
		}, conn
	}
	ask, _ := dial()
	require.NoError(t, ask("one"))
	require.NoError(t, ask("two"))
	require.Equal(t, 2, proxy.RoundTrips())
	require.Equal(t, "one", <-heard)
	require.Equal(t, "two", <-heard)

	proxy.CutNextAnswer()
	require.Error(t, ask("three"))
	require.Equal(t, "three", <-heard, "the request arrives")

	ask, _ = dial()
	require.NoError(t, ask("four"))
	require.Equal(t, "four", <-heard)
	proxy.CutNextRequest()
	require.Error(t, ask("five"))
	require.Empty(t, heard, "the request does not arrive")

	ask, conn := dial()
	require.NoError(t, ask("six"))
	require.Equal(t, "six", <-heard)
	proxy.DropNextAnswer()
	failed := make(chan error)
	go func() { failed <- ask("seven") }()
	require.Equal(t, "seven", <-heard)
	select {
	case err := <-failed:
		t.Fatalf("an answer that was dropped ended the call: %v", err)
	default:
	}
	proxy.CutAll()
	require.Error(t, <-failed)
	require.NoError(t, conn.Close())

	ask, _ = dial()
	require.NoError(t, ask("eight"), "and new connections are taken")
}
