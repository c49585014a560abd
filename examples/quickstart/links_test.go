package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// clients are the clients of servers, by what their import paths hold.
var clients = []string{"nats-io/", "aws/aws-sdk-go", "jackc/pgx", "go-sql-driver/", "versity/"}

func linked(t *testing.T, pkg string) (found []string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", pkg).Output()
	require.NoError(t, err)
	for _, client := range clients {
		if strings.Contains(string(out), client) {
			found = append(found, client)
		}
	}
	return found
}

// A program on the embedded stores links no client of any server, and neither does one that has the whole
// daemon in it. The node binary itself has the clients, and a NATS server for --nats-embedded.
func TestLinksNoClientOfAServer(t *testing.T) {
	require.Empty(t, linked(t, "."))
	require.Empty(t, linked(t, "../booking"))
	require.Empty(t, linked(t, "../../cmd/node/cli"), "the daemon as a library")
	require.Equal(t, []string{"nats-io/", "aws/aws-sdk-go", "jackc/pgx", "go-sql-driver/"}, linked(t, "../../cmd/node"))
}
