package nats_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/stores"
	"github.com/leasehold/leasehold/stores/nats"
	"github.com/leasehold/leasehold/stores/nats/natsserver"
	"github.com/leasehold/leasehold/stores/storetest"
)

// The servers that most tests share: one alone (R1), and three (R3). Every test has a cluster name of its own.
var (
	single *natsserver.Server
	three  *natsserver.Cluster
)

// breakEnv plants NoCompareAndSet into the contenders of a race.
const breakEnv = "LEASEHOLD_NATS_TEST_BREAK"

func TestMain(m *testing.M) {
	serveAlone()
	storetest.Contend(contender)
	if err := serve(m); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func contender(ctx context.Context, target string) (stores.LeaseStore, func() error, error) {
	replicas, rest, _ := strings.Cut(target, " ")
	cluster, url, _ := strings.Cut(rest, " ")
	cfg := nats.Config{URL: url, Cluster: cluster, Replicas: 1, SyncAlways: true}
	if replicas == "3" {
		cfg.Replicas = 3
	}
	s, err := nats.OpenLeases(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	if os.Getenv(breakEnv) != "" {
		return storetest.NoCompareAndSet(s), s.Close, nil
	}
	return s, s.Close, nil
}

func serve(m *testing.M) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "leasehold-nats")
	if err != nil {
		return err
	}
	if single, err = natsserver.Start(ctx, natsserver.Config{Dir: dir + "/single"}); err != nil {
		return err
	}
	if three, err = natsserver.StartCluster(ctx, dir+"/three", 3); err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	code := m.Run()
	three.Shutdown()
	single.Shutdown()
	err = os.RemoveAll(dir)
	if code == 0 {
		err = errors.Join(err, goleak.Find()) // of the stores, and of the servers too
	}
	if err == nil {
		os.Exit(code)
	}
	return err
}

// kinds are the two set-ups that every promise is tested on.
type kind struct {
	name     string
	replicas int
}

var kinds = []kind{{"R1", 1}, {"R3", 3}}

// config names a cluster of its own on the shared servers.
func (k kind) config(t testing.TB) nats.Config {
	cfg := nats.Config{URL: single.URL(), Cluster: strings.Map(func(r rune) rune {
		if r == '/' || r == '#' || r == '=' || r == '.' {
			return '-'
		}
		return r
	}, t.Name()), Replicas: k.replicas, SyncAlways: true, Timeout: time.Minute}
	if len(cfg.Cluster) > 32 {
		cfg.Cluster = cfg.Cluster[len(cfg.Cluster)-32:]
	}
	if k.replicas > 1 {
		cfg.URL = three.URL()
	}
	return cfg
}

func openLeases(t testing.TB, cfg nats.Config) *nats.Leases {
	t.Helper()
	s, err := nats.OpenLeases(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// dial opens a connection as any other program would.
func dial(t testing.TB, url string) *natsgo.Conn {
	t.Helper()
	nc, err := natsgo.Connect(url)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	return nc
}

func on(t *testing.T, test func(t *testing.T, k kind)) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) { test(t, k) })
	}
}
