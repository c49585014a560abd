package natsconn_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/nats/natsconn"
	"github.com/leasehold/leasehold/stores/nats/natsserver"
	"github.com/leasehold/leasehold/stores/storetest/servers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	folder, err := os.MkdirTemp("", "nats")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	server, err := natsserver.Start(ctx, natsserver.Config{Dir: folder})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Shutdown()

	nc, err := natsconn.Config{URL: server.URL(), Name: "example"}.Connect(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nc.Close()
	fmt.Println(nc.Opts.Name, nc.Status())

	_, err = natsconn.Config{URL: "nats://127.0.0.1:1"}.Connect(ctx) // nobody listens there
	fmt.Println(errors.Is(err, messages.ErrUnavailable))
	// Output:
	// example CONNECTED
	// true
}

func TestValidate_RefusesWhatCannotWork(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for name, cfg := range map[string]natsconn.Config{
		"no server":                      {},
		"an empty server":                {URL: "nats://a,,nats://b"},
		"a server without a host":        {URL: "nats://:4222"},
		"another scheme":                 {URL: "http://secret@a"},
		"what is no URL":                 {URL: "nats://u:secret@a:port"},
		"credentials and an nkey":        {URL: "nats://a", CredsFile: none, NKeyFile: none},
		"a certificate without its key":  {URL: "nats://a", CertFile: none},
		"a key without its certificate":  {URL: "nats://a", KeyFile: none},
		"a negative timeout":             {URL: "nats://a", Timeout: -1},
		"a host with a control in it":    {URL: "nats://secret\x00"},
		"a comma at the end":             {URL: "nats://a,"},
		"a password that is not escaped": {URL: "nats://u:%zzsecret@a"},
	} {
		t.Run(name, func(t *testing.T) {
			err := cfg.Validate()
			require.ErrorIs(t, err, messages.ErrInvalidArgument)
			require.NotContains(t, err.Error(), "secret")
			_, err = cfg.Connect(t.Context())
			require.ErrorIs(t, err, messages.ErrInvalidArgument)
		})
	}
	for _, url := range []string{"a", "a:4222,b:4222", "nats://a, nats://b", "tls://u:p@a:1", "ws://a", "wss://a", "nats://[::1]:4222"} {
		require.NoError(t, natsconn.Config{URL: url}.Validate(), url)
	}
}

func TestConnect_RefusesFilesThatCannotBeUsed(t *testing.T) {
	none, empty := filepath.Join(t.TempDir(), "none"), filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for name, cfg := range map[string]natsconn.Config{
		"credentials that are not there": {CredsFile: none},
		"an nkey that is not there":      {NKeyFile: none},
		"an nkey file without one":       {NKeyFile: empty},
		"an authority that is not there": {CAFile: none},
		"an authority file without one":  {CAFile: empty},
		"a certificate that is not":      {CertFile: empty, KeyFile: empty},
	} {
		cfg.URL = "nats://127.0.0.1:1"
		require.NoError(t, cfg.Validate(), name)
		_, err := cfg.Connect(t.Context())
		require.ErrorIs(t, err, messages.ErrInvalidArgument, name)
		require.NotEmpty(t, messages.AsError(err).Object, name)
	}
}

// A server that takes the connection and says nothing holds nobody up beyond the end of the context.
func TestConnect_EndsWithItsContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	taken := make(chan net.Conn)
	go func() {
		defer close(taken)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			taken <- conn
		}
	}()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	cfg := natsconn.Config{URL: "nats://" + l.Addr().String() + ",nats://127.0.0.1:1", Timeout: time.Hour,
		Options: []natsgo.Option{natsgo.DontRandomize()}}
	go func() {
		_, err := cfg.Connect(ctx)
		done <- err
	}()
	conn := <-taken
	cancel()
	err = <-done
	require.ErrorIs(t, err, messages.ErrUnavailable)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, conn.Close())
	require.NoError(t, l.Close())
	<-taken

	_, err = cfg.Connect(ctx)
	require.ErrorIs(t, err, context.Canceled, "and one that had ended before")
}

// The end of the context that connected is not the end of the connection: it lives on, and comes back when
// its server does. Meanwhile nothing is kept for later.
func TestConnect_ComesBackByItself(t *testing.T) {
	dir := t.TempDir()
	start := func(port int) *natsserver.Server {
		s, err := natsserver.Start(t.Context(), natsserver.Config{Dir: dir, Port: port, Configure: func(o *server.Options) {
			o.NoSystemAccount = true
		}})
		require.NoError(t, err)
		return s
	}
	s := start(0)
	port := s.NATS().Addr().(*net.TCPAddr).Port
	ctx, cancel := context.WithCancel(t.Context())
	broken, back := make(chan struct{}, 1), make(chan struct{}, 1)
	nc, err := natsconn.Config{URL: s.URL(), Options: []natsgo.Option{
		natsgo.DisconnectErrHandler(func(*natsgo.Conn, error) { broken <- struct{}{} }),
		natsgo.ReconnectHandler(func(*natsgo.Conn) { back <- struct{}{} }),
	}}.Connect(ctx)
	require.NoError(t, err)
	defer nc.Close()
	cancel()
	require.NoError(t, nc.FlushTimeout(10*time.Second), "connected still")
	s.Shutdown()
	<-broken
	require.ErrorIs(t, nc.Publish("late", nil), natsgo.ErrReconnectBufExceeded)
	s = start(port)
	defer s.Shutdown()
	<-back
	require.NoError(t, nc.FlushTimeout(10*time.Second))
}

// A connection on which the answers vanish looks alive: what is sent is taken. It is replaced all the same, before a
// lease of the default length would end.
func TestConnect_ReplacesAConnectionThatIsSilent(t *testing.T) {
	s, err := natsserver.Start(t.Context(), natsserver.Config{Dir: t.TempDir(), Configure: func(o *server.Options) { o.NoSystemAccount = true }})
	require.NoError(t, err)
	defer s.Shutdown()
	proxy, err := servers.NewProxy(s.NATS().Addr().String())
	require.NoError(t, err)
	defer func() { require.NoError(t, proxy.Close()) }()
	broken, back := make(chan error, 1), make(chan struct{}, 1)
	nc, err := natsconn.Config{URL: "nats://" + proxy.Addr(), Options: []natsgo.Option{
		natsgo.DisconnectErrHandler(func(_ *natsgo.Conn, err error) { broken <- err }),
		natsgo.ReconnectHandler(func(*natsgo.Conn) { back <- struct{}{} }),
	}}.Connect(t.Context())
	require.NoError(t, err)
	defer nc.Close()
	proxy.Set(servers.Faults{Silence: true})
	require.Error(t, nc.FlushTimeout(50*time.Millisecond))
	proxy.Set(servers.Faults{}) // new connections would be answered
	limit := time.After(9 * time.Second)
	select {
	case err := <-broken:
		require.ErrorIs(t, err, natsgo.ErrStaleConnection)
	case <-limit:
		t.Fatal("a connection that lost its answers is kept")
	}
	<-back
	require.NoError(t, nc.FlushTimeout(10*time.Second))
}

// A client outside links no store with it.
func TestImports_MessagesOnly(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "github.com/leasehold/leasehold/stores/nats/natsconn").Output()
	require.NoError(t, err)
	own := 0
	for dep := range strings.Lines(string(out)) {
		dep = strings.TrimSpace(dep)
		if strings.HasPrefix(dep, "github.com/leasehold/leasehold/") {
			own++
			require.Contains(t, []string{"github.com/leasehold/leasehold/internal/smallfile", "github.com/leasehold/leasehold/messages", "github.com/leasehold/leasehold/stores/nats/natsconn"}, dep)
		}
		for _, heavy := range []string{"sqlite", "jetstream", "nats-server"} {
			require.NotContains(t, dep, heavy)
		}
	}
	require.Equal(t, 3, own)
}
