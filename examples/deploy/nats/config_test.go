package nats_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors/client"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/nats"
	"github.com/leasehold/leasehold/stores/storetest"
)

// memberSubjects are the subjects of the members of a cluster, beside those of the stores.
func memberSubjects(t *testing.T) []string {
	s, err := client.NewSubjects("prod")
	require.NoError(t, err)
	require.Equal(t, s.AnyRequest()+"."+client.Token("n#1"), s.Request("n#1"))
	require.Equal(t, s.Members()+"."+client.Token("n#1"), s.Member("n#1"))
	return []string{s.AnyRequest(), s.AnyRequest() + ".*", s.Members(), s.Members() + ".*"}
}

// nats-server.conf, as it is, on three servers with routes and clients over TLS.
func TestConfiguration(t *testing.T) {
	d := deploy(t)
	t.Run("syncs before it acknowledges", func(t *testing.T) {
		for _, s := range d.servers {
			require.True(t, s.NATS().JetStreamConfig().SyncAlways)
		}
	})
	t.Run("lists what the stores and the members need, and nothing else", d.lists)
	t.Run("a node has leases and copies", d.nodeStores)
	t.Run("permissions", d.permissions)
	t.Run("an app is answered", d.appIsAnswered)
	t.Run("another account sees nothing", d.anotherAccount)
	t.Run("who is not known is refused", d.refused)
}

func (d *deployment) lists(t *testing.T) {
	nodes := 0
	for _, user := range d.options[0].Nkeys {
		if user.Account.Name != "LEASEHOLD" || len(user.Permissions.Publish.Allow) < 5 {
			continue
		}
		nodes++
		require.ElementsMatch(t, append(nats.Permissions("prod"), memberSubjects(t)...), user.Permissions.Publish.Allow)
		require.ElementsMatch(t, append([]string{"_INBOX.>"}, memberSubjects(t)...), user.Permissions.Subscribe.Allow)
		require.Equal(t, 1, user.Permissions.Response.MaxMsgs)
	}
	require.Equal(t, 3, nodes)
	require.Empty(t, d.options[0].NoAuthUser)
}

func (d *deployment) nodeStores(t *testing.T) {
	leases, err := nats.OpenLeases(t.Context(), d.store("node-a"))
	require.NoError(t, err)
	defer func() { require.NoError(t, leases.Close()) }()
	objects, err := nats.OpenObjects(t.Context(), d.store("node-a"))
	require.NoError(t, err)
	defer func() { require.NoError(t, objects.Close()) }()
	require.Empty(t, storetest.CheckLeases(t.Context(), leases, storetest.RealTime{}))
	require.Empty(t, storetest.CheckDurable(t.Context(), objects))
	// What one node wrote, another one reads: nkeys of one account are one cluster.
	key := storetest.NewKey()
	lease, err := leases.Acquire(t.Context(), key, "a", time.Minute)
	require.NoError(t, err)
	other, err := nats.OpenLeases(t.Context(), d.store("node-b"))
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Close()) }()
	got, ok, err := other.Read(t.Context(), key)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, lease, got)
	// Another cluster's name: the server does not answer what it does not permit.
	yours := d.store("node-a")
	yours.Cluster, yours.Timeout = "yours", time.Second
	_, err = nats.OpenLeases(t.Context(), yours)
	require.ErrorIs(t, err, messages.ErrUnavailable)
}

// permissions tries each subject on a connection of its own. What is allowed is tried too: so this can fail.
func (d *deployment) permissions(t *testing.T) {
	for _, tt := range []struct {
		client            string
		publish, noPub    []string
		subscribe, noSubs []string
	}{
		{
			client: "node-b",
			publish: []string{"leasehold.prod.request", "leasehold.prod.request.n1", "leasehold.prod.members", "leasehold.prod.members.n1",
				"$JS.API.STREAM.INFO.KV_prod-leases"},
			noPub: []string{
				"leasehold.yours.request", "leasehold.yours.members", "leasehold.yours.objects.m.x", "$KV.yours-leases.lease.a.b.grant",
				"$JS.API.STREAM.CREATE.KV_yours-leases", "$JS.API.STREAM.MSG.GET.KV_yours-leases", "$JS.API.STREAM.DELETE.KV_yours-leases",
				"$JS.API.STREAM.DELETE.KV_prod-leases", "$JS.API.STREAM.DELETE.leasehold-prod-objects", "$JS.API.STREAM.UPDATE.KV_prod-leases",
				"$JS.API.STREAM.UPDATE.leasehold-prod-objects", "$JS.API.STREAM.PURGE.KV_prod-leases", "$JS.API.STREAM.MSG.DELETE.KV_prod-leases",
				"$JS.API.STREAM.RESTORE.x", "$JS.API.CONSUMER.CREATE.KV_prod-leases", "$JS.API.INFO", "$SYS.REQ.SERVER.PING", "_INBOX_app.x.1",
				"_INBOX.x.1", "anything",
			},
			subscribe: append([]string{"_INBOX.mine.*"}, memberSubjects(t)...),
			noSubs:    []string{"leasehold.yours.request", "leasehold.yours.members", "leasehold.>", "$KV.>", "$JS.>", "$SYS.>", "_INBOX_app.>", ">"},
		},
		{
			client:  "app",
			publish: []string{"leasehold.prod.request", "leasehold.prod.request.n1"},
			noPub: []string{
				"leasehold.prod.members", "leasehold.prod.members.n1", "leasehold.prod.objects.m.x", "$KV.prod-leases.lease.a.b.grant", "leasehold.yours.request",
				"$JS.API.INFO", "$JS.API.STREAM.INFO.KV_prod-leases", "$JS.API.STREAM.MSG.GET.KV_prod-leases", "$JS.API.DIRECT.GET.KV_prod-leases",
				"$JS.API.STREAM.MSG.GET.leasehold-prod-objects", "$JS.API.STREAM.CREATE.x", "$JS.API.STREAM.DELETE.KV_prod-leases", "$JS.API.STREAM.NAMES",
				"$JS.API.CONSUMER.CREATE.KV_prod-leases", "$SYS.REQ.SERVER.PING", "_INBOX.x.1", "_INBOX_app.x.1",
			},
			subscribe: []string{"_INBOX_app.x.*"},
			noSubs: []string{"_INBOX.>", "leasehold.prod.request", "leasehold.prod.request.n1", "leasehold.prod.members", "leasehold.prod.members.*",
				"leasehold.prod.objects.>", "$KV.prod-leases.>", "$JS.>", "$SYS.>", ">"},
		},
	} {
		t.Run(tt.client, func(t *testing.T) {
			try := func(subject, verb string, allowed bool) {
				nc := d.dial(t, tt.client)
				defer nc.Close()
				if verb == "Publish" {
					require.NoError(t, nc.Publish(subject, nil))
				} else {
					_, err := nc.SubscribeSync(subject)
					require.NoError(t, err)
				}
				require.NoError(t, nc.Flush())
				if allowed {
					require.NoError(t, nc.LastError(), "%s %s", verb, subject)
					return
				}
				require.ErrorIs(t, nc.LastError(), natsgo.ErrPermissionViolation, "%s %s", verb, subject)
				require.ErrorContains(t, nc.LastError(), `for `+verb+` to "`+subject+`"`)
			}
			for verb, lists := range map[string][2][]string{"Publish": {tt.publish, tt.noPub}, "Subscription": {tt.subscribe, tt.noSubs}} {
				for _, subject := range lists[0] {
					try(subject, verb, true)
				}
				for _, subject := range lists[1] {
					try(subject, verb, false)
				}
			}
		})
	}
}

// appIsAnswered asks a node, which answers plainly: once for each request, and nowhere else.
func (d *deployment) appIsAnswered(t *testing.T) {
	node, app := d.dial(t, "node-c", d.only(0)), d.dial(t, "app", d.only(1), natsgo.CustomInboxPrefix("_INBOX_app"))
	answer := func(m *natsgo.Msg) { _ = m.Respond(append([]byte("answer to "), m.Data...)) } // a failure shows as no answer
	_, err := node.QueueSubscribe("leasehold.prod.request", "members", answer)
	require.NoError(t, err)
	_, err = node.Subscribe("leasehold.prod.request.n1", answer)
	require.NoError(t, err)
	require.NoError(t, node.Flush())
	for _, subject := range []string{"leasehold.prod.request", "leasehold.prod.request.n1"} {
		require.Equal(t, "answer to "+subject, string(d.ask(t, app, subject).Data))
	}
	// An answer goes where the server sends it, and not where an app would have a node write.
	objects, err := nats.OpenObjects(t.Context(), d.store("node-c"))
	require.NoError(t, err)
	defer func() { require.NoError(t, objects.Close()) }()
	replies := make(chan string, 1)
	_, err = node.Subscribe("leasehold.prod.request.n2", func(m *natsgo.Msg) { answer(m); replies <- m.Reply })
	require.NoError(t, err)
	require.NoError(t, node.Flush())
	d.ask(t, app, "leasehold.prod.request.n2")
	<-replies
	require.NoError(t, app.PublishRequest("leasehold.prod.request.n2", "leasehold.prod.objects.m.forged", []byte("x")))
	require.NotContains(t, <-replies, "objects")
	require.NoError(t, node.Flush())
	keys, err := objects.List(t.Context(), "")
	require.NoError(t, err)
	require.NotContains(t, keys, "forged")
	// The stores' own calls, over the client library: an app has none of it.
	js, err := jetstream.New(app)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err = js.Stream(ctx, "KV_prod-leases")
	require.ErrorIs(t, err, context.DeadlineExceeded, "not permitted: no answer")
	config := d.store("app")
	config.Timeout = 500 * time.Millisecond
	_, err = nats.OpenLeases(t.Context(), config)
	require.ErrorIs(t, err, messages.ErrUnavailable)
	_, err = nats.OpenObjects(t.Context(), config)
	require.ErrorIs(t, err, messages.ErrUnavailable)
}

// ask asks until somebody is there: that a node listens takes a moment to reach the other servers.
func (d *deployment) ask(t *testing.T, nc *natsgo.Conn, subject string) *natsgo.Msg {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		reply, err := nc.RequestWithContext(ctx, subject, []byte(subject))
		if err == nil {
			return reply
		}
		require.ErrorIs(t, err, natsgo.ErrNoResponders)
		require.NoError(t, ctx.Err())
	}
}

// anotherAccount may use every subject, of its own account.
func (d *deployment) anotherAccount(t *testing.T) {
	node, app, billing := d.dial(t, "node-a", d.only(0)), d.dial(t, "app", d.only(0), natsgo.CustomInboxPrefix("_INBOX_app")), d.dial(t, "billing", d.only(0))
	all, err := billing.SubscribeSync(">")
	require.NoError(t, err)
	require.NoError(t, billing.Flush())
	heard, err := node.SubscribeSync("leasehold.prod.request")
	require.NoError(t, err)
	require.NoError(t, node.Flush())
	require.NoError(t, node.Publish("leasehold.prod.members", []byte("heartbeat")))
	require.NoError(t, app.Publish("leasehold.prod.request", []byte("request")))
	require.NoError(t, node.Flush())
	require.NoError(t, app.Flush())
	m, err := heard.NextMsgWithContext(t.Context())
	require.NoError(t, err)
	require.Equal(t, "request", string(m.Data), "the account itself works")
	require.NoError(t, billing.Publish("leasehold.prod.request", []byte("own")))
	m, err = all.NextMsgWithContext(t.Context())
	require.NoError(t, err)
	require.Equal(t, "own", string(m.Data), "it heard what it said itself, and nothing before")
	require.NoError(t, all.Unsubscribe())
	_, err = billing.RequestWithContext(t.Context(), "leasehold.prod.request", nil)
	require.ErrorIs(t, err, natsgo.ErrNoResponders)
	js, err := jetstream.New(billing)
	require.NoError(t, err)
	_, err = js.Stream(t.Context(), "KV_prod-leases")
	require.ErrorIs(t, err, jetstream.ErrStreamNotFound, "it has streams of its own, and no others")
	info, err := js.AccountInfo(t.Context())
	require.NoError(t, err)
	for name, limit := range map[string]int64{"memory": info.Limits.MaxMemory, "disk": info.Limits.MaxStore, "streams": int64(info.Limits.MaxStreams), "consumers": int64(info.Limits.MaxConsumers)} {
		require.Positive(t, limit, "%s is bounded", name)
	}
}

func (d *deployment) refused(t *testing.T) {
	open := func(change func(*nats.Config)) error {
		config := d.store("node-a")
		change(&config)
		leases, err := nats.OpenLeases(t.Context(), config)
		if err == nil {
			require.NoError(t, leases.Close())
		}
		return err
	}
	require.NoError(t, open(func(*nats.Config) {}))
	stranger := &deployment{secrets: t.TempDir()}
	require.NoError(t, strangersPlan().Write(stranger.secrets))
	for name, change := range map[string]func(*nats.Config){
		"no nkey":         func(c *nats.Config) { c.NKeyFile = "" },
		"no certificate":  func(c *nats.Config) { c.CertFile, c.KeyFile = "", "" },
		"an unknown nkey": func(c *nats.Config) { c.NKeyFile = stranger.file("node-a", "client.nk") },
		"a certificate of somebody else's": func(c *nats.Config) {
			c.CertFile, c.KeyFile = stranger.file("node-a", "client.pem"), stranger.file("node-a", "client.key")
		},
		"a server of somebody else's": func(c *nats.Config) { c.CAFile = stranger.file("node-a", "ca.pem") },
	} {
		require.ErrorIs(t, open(change), messages.ErrUnavailable, name)
	}
	t.Run("plaintext", func(t *testing.T) {
		conn, lines := d.raw(t, d.servers[0].NATS().Addr().String())
		_, err := io.WriteString(conn, "CONNECT {\"verbose\":true}\r\nPING\r\n")
		require.NoError(t, err)
		require.NotContains(t, rest(lines), "PONG")
	})
	t.Run("a client's certificate on a route", func(t *testing.T) {
		require.NoError(t, d.route(t, "servers/nats-1/server.routes"), "a server gets in")
		require.ErrorContains(t, d.route(t, "clients/node-a/client"), "tls: unknown certificate authority")
		require.ErrorContains(t, d.route(t, "servers/nats-1/server"), "tls: unknown certificate authority")
	})
}

// route knocks at the port where servers meet, with a certificate, and returns nil once the server there speaks.
func (d *deployment) route(t *testing.T, who string) error {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", d.options[0].Routes[0].Host)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	pair, err := tls.LoadX509KeyPair(filepath.Join(d.secrets, who+".pem"), filepath.Join(d.secrets, who+".key"))
	require.NoError(t, err)
	// Who the server is does not matter here: what counts is whom it lets in. The certificate is sent even if the server asks for
	// others.
	secure := tls.Client(conn, &tls.Config{InsecureSkipVerify: true,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }})
	_, err = bufio.NewReaderSize(secure, 1<<16).ReadString('\n') // in TLS 1.3 a client learns here that it is refused
	return err
}

// raw opens a connection and reads the server's greeting, which says that it wants TLS.
func (d *deployment) raw(t *testing.T, address string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	lines := bufio.NewReaderSize(conn, 1<<16)
	greeting, err := lines.ReadString('\n')
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(greeting, "INFO "))
	require.Contains(t, greeting, `"tls_required":true`)
	return conn, lines
}

// rest reads until the server hangs up.
func rest(r io.Reader) string {
	data, _ := io.ReadAll(r) // a reset is a way to hang up
	return string(data)
}
