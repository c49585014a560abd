package nats_test

import (
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/nats"
)

func TestOpen_RefusesAConfigThatCannotWork(t *testing.T) {
	good := kinds[0].config(t)
	for name, change := range map[string]func(*nats.Config){
		"no server":                         func(c *nats.Config) { c.URL = "" },
		"a cluster with a dot":              func(c *nats.Config) { c.Cluster = "a.b" },
		"a cluster with a wildcard":         func(c *nats.Config) { c.Cluster = "*" },
		"a long cluster":                    func(c *nats.Config) { c.Cluster = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" },
		"a domain with a space":             func(c *nats.Config) { c.Domain = "a b" },
		"two replicas":                      func(c *nats.Config) { c.Replicas = 2 },
		"no word about fsync":               func(c *nats.Config) { c.SyncAlways = false },
		"one server, and separate hosts":    func(c *nats.Config) { c.SyncAlways, c.SeparateHosts = false, true },
		"a negative timeout":                func(c *nats.Config) { c.Timeout = -1 },
		"a negative trail":                  func(c *nats.Config) { c.KeepEntries = -1 },
		"a certificate without its key":     func(c *nats.Config) { c.CertFile = "x.pem" },
		"a CA file that is not there":       func(c *nats.Config) { c.CAFile = filepath.Join(t.TempDir(), "none") },
		"a credentials file that is not":    func(c *nats.Config) { c.CredsFile = filepath.Join(t.TempDir(), "none") },
		"an nkey file that is not there":    func(c *nats.Config) { c.NKeyFile = filepath.Join(t.TempDir(), "none") },
		"orphans that are swept at once":    func(c *nats.Config) { c.OrphanAge = time.Second },
		"chunks that no message could hold": func(c *nats.Config) { c.ChunkBytes = -1 },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := good
			change(&cfg)
			_, err := nats.OpenLeases(t.Context(), cfg)
			require.ErrorIs(t, err, messages.ErrInvalidArgument)
			_, err = nats.OpenObjects(t.Context(), cfg)
			require.ErrorIs(t, err, messages.ErrInvalidArgument)
		})
	}
}

// The server that answers may learn of a stream later than the one that has created it. Then the stream is there all the
// same, a moment later.
func TestOpen_AServerThatLearnsOfTheNewStreamLate(t *testing.T) {
	for name, open := range map[string]func(cfg nats.Config){
		"leases":  func(cfg nats.Config) { openLeases(t, cfg) },
		"objects": func(cfg nats.Config) { openObjects(t, cfg) },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := kinds[0].config(t)
			cfg.Domain = strings.ReplaceAll(cfg.Cluster, "/", "-")
			nc := dial(t, cfg.URL)
			var created atomic.Bool
			var late atomic.Int64
			// The API of another domain is one that knows what the real one knew before.
			prefix := "$JS." + cfg.Domain + ".API"
			sub, err := nc.Subscribe(prefix+".>", func(m *natsgo.Msg) {
				what := strings.TrimPrefix(m.Subject, prefix)
				data := []byte(`{"error":{"code":404,"err_code":10059,"description":"stream not found"}}`)
				if !strings.HasPrefix(what, ".STREAM.INFO.") || !created.Load() || late.Add(1) > 3 {
					answer, err := nc.Request("$JS.API"+what, m.Data, time.Minute)
					if err != nil {
						return
					}
					data = answer.Data
				}
				if strings.HasPrefix(what, ".STREAM.CREATE.") {
					created.Store(true)
				}
				_ = m.Respond(data)
			})
			require.NoError(t, err)
			require.NoError(t, nc.Flush())
			open(cfg)
			require.Greater(t, late.Load(), int64(3))
			require.NoError(t, sub.Unsubscribe())
		})
	}
}

// A stream that could lose records, or show old ones, is refused; so is one with other replicas.
func TestOpen_RefusesSettingsThatBreakThePromises(t *testing.T) {
	cfg := kinds[0].config(t)
	js, err := jetstream.New(dial(t, cfg.URL))
	require.NoError(t, err)
	type change struct {
		name   string
		change func(*jetstream.StreamConfig)
	}
	both := []change{
		{"memory", func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }},
		{"direct_reads", func(c *jetstream.StreamConfig) { c.AllowDirect = true }},
		{"age", func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }},
		{"message_ttl", func(c *jetstream.StreamConfig) { c.AllowMsgTTL = true }},
		{"async_persistence", func(c *jetstream.StreamConfig) { c.PersistMode = jetstream.AsyncPersistMode }},
		{"interest", func(c *jetstream.StreamConfig) { c.Retention = jetstream.InterestPolicy }},
		{"no_ack", func(c *jetstream.StreamConfig) { c.NoAck = true }},
		{"more_subjects", func(c *jetstream.StreamConfig) { c.Subjects = append(c.Subjects, c.Name+".other") }},
		{"batches", func(c *jetstream.StreamConfig) { c.AllowAtomicPublish = true }},
	}
	try := func(t *testing.T, name string, changes []change, open func(nats.Config) error) {
		for _, ch := range changes {
			t.Run(ch.name, func(t *testing.T) {
				require.NoError(t, open(cfg), "as this package creates it")
				stream, err := js.Stream(t.Context(), name)
				require.NoError(t, err)
				config := stream.CachedInfo().Config
				// Made anew: most of this cannot be changed later.
				require.NoError(t, js.DeleteStream(t.Context(), name))
				ch.change(&config)
				_, err = js.CreateStream(t.Context(), config)
				require.NoError(t, err)
				err = open(cfg)
				require.ErrorIs(t, err, messages.ErrCorrupt)
				require.Equal(t, name, messages.AsError(err).Object)
				require.NoError(t, js.DeleteStream(t.Context(), name))
			})
		}
	}
	leases := append([]change{
		{"max_messages", func(c *jetstream.StreamConfig) { c.MaxMsgs = 1000 }},
		{"max_bytes", func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 20 }},
		{"deletes", func(c *jetstream.StreamConfig) { c.DenyDelete = false }},
		{"purges", func(c *jetstream.StreamConfig) { c.DenyPurge = false }},
		{"rollups", func(c *jetstream.StreamConfig) { c.DenyPurge, c.AllowRollup = false, true }},
		{"unbounded_trail", func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = -1 }},
		{"tiny_messages", func(c *jetstream.StreamConfig) { c.MaxMsgSize = 100 }},
		{"full_trail_refuses", func(c *jetstream.StreamConfig) { c.Discard, c.DiscardNewPerSubject = jetstream.DiscardNew, true }},
	}, both...)
	t.Run("leases", func(t *testing.T) {
		try(t, "KV_"+cfg.Cluster+"-leases", leases, func(cfg nats.Config) error {
			s, err := nats.OpenLeases(t.Context(), cfg)
			if err == nil {
				return s.Close()
			}
			return err
		})
	})
	objects := append([]change{
		{"overwrites", func(c *jetstream.StreamConfig) { c.DiscardNewPerSubject = false }},
		{"many_per_key", func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 2 }},
		{"no_deletes", func(c *jetstream.StreamConfig) { c.DenyDelete = true }},
		{"small_messages", func(c *jetstream.StreamConfig) { c.MaxMsgSize = 1000 }},
	}, both...)
	t.Run("objects", func(t *testing.T) {
		try(t, "leasehold-"+cfg.Cluster+"-objects", objects, func(cfg nats.Config) error {
			s, err := nats.OpenObjects(t.Context(), cfg)
			if err == nil {
				return s.Close()
			}
			return err
		})
	})
	t.Run("replicas", func(t *testing.T) {
		cfg := kinds[1].config(t)
		openLeases(t, cfg)
		cfg.Replicas = 1
		_, err := nats.OpenLeases(t.Context(), cfg)
		require.ErrorIs(t, err, messages.ErrInvalidArgument)
	})
	t.Run("three_replicas_of_one_server", func(t *testing.T) {
		cfg := cfg
		cfg.Cluster, cfg.Replicas = cfg.Cluster[1:], 3
		_, err := nats.OpenLeases(t.Context(), cfg)
		require.ErrorIs(t, err, messages.ErrUnavailable)
	})
}

func TestOpen_NobodyThere(t *testing.T) {
	cfg := kinds[0].config(t)
	cfg.URL = "nats://127.0.0.1:1"
	_, err := nats.OpenLeases(t.Context(), cfg)
	require.ErrorIs(t, err, messages.ErrUnavailable)
}
