package config_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/cmd/node/config"
	"github.com/leasehold/leasehold/messages"
)

func Example() {
	c := config.Config{Listen: "127.0.0.1:7070", TTL: 8 * time.Second}
	c.StateRoot = "data"
	c.Leases = "postgres://leasehold:hunter2@db/leases"
	c = c.Redacted()
	fmt.Println(c.Leases)
	fmt.Println(c.Durable)
	fmt.Println(c.Margin, c.Loopback())
	// Output:
	// postgres://leasehold:xxxxx@db/leases
	// dir:data/durable
	// 2s true
}

func TestLoopback(t *testing.T) {
	for listen, loopback := range map[string]bool{
		"127.0.0.1:1": true, "127.9.9.9:1": true, "[::1]:1": true, "localhost:1": true, "LocalHost:1": true,
		":1": false, "0.0.0.0:1": false, "[::]:1": false, "10.0.0.1:1": false, "example.com:1": false, "localhost.example.com:1": false, "127.0.0.1": false, "": false,
	} {
		require.Equal(t, loopback, config.Config{Listen: listen}.Loopback(), listen)
	}
}

func TestOrgKeys(t *testing.T) {
	path := t.TempDir() + "/key"
	require.NoError(t, os.WriteFile(path, []byte("  0707070707070707070707070707070707070707070707070707070707070707\n"), 0o600))
	keys, err := config.Config{OrgKey: map[string]string{"acme": path}}.OrgKeys()
	require.NoError(t, err)
	id, err := messages.DeriveTenant(keys["acme"], "https://idp.example/acme", "user-1")
	require.NoError(t, err)
	require.EqualValues(t, "t-3129611eac9be1d5994a2b216b06ed27", id)
	_, err = config.Config{OrgKey: map[string]string{"acme": path + "x"}}.OrgKeys()
	require.ErrorIs(t, err, os.ErrNotExist)
}
