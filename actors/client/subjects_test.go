package client_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors/client"
	"github.com/leasehold/leasehold/messages"
)

func TestSubjects(t *testing.T) {
	s, err := client.NewSubjects("blue")
	require.NoError(t, err)
	require.Equal(t, "leasehold.blue.request", s.AnyRequest())
	require.Equal(t, "leasehold.blue.request."+client.Token(nodeA), s.Request(nodeA))
	require.Equal(t, "leasehold.blue.members", s.Members())
	require.Equal(t, "leasehold.blue.members."+client.Token(nodeA), s.Member(nodeA))
	require.Len(t, client.Token(nodeA), 32)

	standard, err := client.NewSubjects("")
	require.NoError(t, err)
	require.Equal(t, "leasehold.leasehold.request", standard.AnyRequest())
	for _, bad := range []string{"a b", "a.b", "*", ">", "ü", "a\n", strings.Repeat("x", 33)} {
		_, err := client.NewSubjects(bad)
		require.ErrorIs(t, err, messages.ErrInvalidArgument, "%q", bad)
	}
}

// A token is the start of a SHA-256, as anybody can compute it (printf %s abc | sha256sum), and one token of a
// subject whatever the owner id holds.
func TestToken(t *testing.T) {
	require.Equal(t, "ba7816bf8f01cfea414140de5dae2223", client.Token("abc"))
	for _, owner := range []string{"", "a.b", "*", ">", "a b", "ü#1", strings.Repeat("x", 10_000)} {
		require.Regexp(t, `\A[0-9a-f]{32}\z`, client.Token(owner))
	}
}
