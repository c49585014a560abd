package natsserver_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/nats/natsserver"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(keepNameEnv); dir != "" { // this process is to have its power cut
		if _, err := natsserver.KeptName(dir, "first"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

const keepNameEnv = "LEASEHOLD_KEEP_NAME_IN"

func Example() {
	folder, err := os.MkdirTemp("", "nats")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	s, err := natsserver.Start(context.Background(), natsserver.Config{Dir: folder})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Shutdown()
	nc, err := nats.Connect(s.URL())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nc.Close()
	fmt.Println(nc.Status())
	// Output: CONNECTED
}

func TestStart_SyncsAndStaysAtHome(t *testing.T) {
	s, err := natsserver.Start(t.Context(), natsserver.Config{Dir: t.TempDir()})
	require.NoError(t, err)
	defer s.Shutdown()
	require.NoError(t, s.Ready(t.Context()))
	require.True(t, s.NATS().JetStreamConfig().SyncAlways)
	require.Contains(t, s.URL(), "127.0.0.1:")
	s.Shutdown() // twice is fine
}

func TestStart_RefusesWhatCannotWork(t *testing.T) {
	for name, cfg := range map[string]natsserver.Config{
		"no folder":            {},
		"a negative port":      {Dir: t.TempDir(), Port: -1},
		"a negative limit":     {Dir: t.TempDir(), MaxStore: -1},
		"a cluster, no port":   {Dir: t.TempDir(), ClusterName: "c"},
		"a route without port": {Dir: t.TempDir(), ClusterName: "c", ClusterPort: 1, Routes: []string{"host"}},
		"options that it will not have": {Dir: t.TempDir(), Configure: func(o *server.Options) {
			o.Nkeys = []*server.NkeyUser{{Nkey: "x"}}
			o.TrustedOperators, o.TrustedKeys = nil, []string{"not a key"}
		}},
	} {
		_, err := natsserver.Start(t.Context(), cfg)
		require.ErrorIs(t, err, messages.ErrInvalidArgument, name)
	}
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := natsserver.Start(t.Context(), natsserver.Config{Dir: file})
	require.ErrorIs(t, err, messages.ErrStorage)
}

func TestCluster_SurvivesAMember(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := natsserver.StartCluster(ctx, t.TempDir(), 3)
	require.NoError(t, err)
	defer c.Shutdown()
	require.Equal(t, -1, c.Leader("none"))
	require.False(t, c.StepDown("none"))
	c.Stop(0)
	require.NoError(t, c.Ready(ctx))
	require.NoError(t, c.Start(ctx, 0))
	require.NoError(t, c.Ready(ctx))
}
