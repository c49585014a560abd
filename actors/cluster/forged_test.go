package cluster_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/actors/client"
	"github.com/leasehold/leasehold/actors/cluster"
	"github.com/leasehold/leasehold/internal/nodetest"
	"github.com/leasehold/leasehold/messages"
)

// Q3: whoever can send heartbeats can neither fill the log nor the memory of a member: it knows a bounded number of others,
// and says little about them.
func TestQ3_ForgedHeartbeats(t *testing.T) {
	f := newFleet(t)
	log := &nodetest.Log{}
	a := f.join("a", func(_ *actors.Config, c *cluster.Config) {
		c.Log = slog.New(slog.NewTextHandler(log, nil))
		c.DeadAfter = time.Minute // however long it takes to hear all of them
	})
	subjects, err := client.NewSubjects("")
	require.NoError(t, err)
	conn := f.connect()
	beat := func(owner string) []byte {
		data, err := json.Marshal(cluster.Info{Owner: owner, Name: owner, State: cluster.StateLeaving})
		require.NoError(t, err)
		return data
	}
	for n := range 5000 {
		require.NoError(t, conn.Publish(subjects.Members(), beat(messages.NewOwner("forged", fmt.Sprintf("%036d", n)))))
	}
	for _, data := range [][]byte{beat(strings.Repeat("x", 1<<20)), beat("a\nb"), []byte(`{"owner":"long","name":"` + strings.Repeat("x", 1<<20) + `"}`)} {
		require.NoError(t, conn.Publish(subjects.Members(), data))
	}
	require.NoError(t, conn.Publish(subjects.Member(a.node.Owner()), beat(strings.Repeat("x", 1<<20))))
	require.NoError(t, conn.FlushWithContext(within(t, time.Minute)))
	require.Eventually(t, func() bool { return len(a.Members()) > 900 }, time.Minute, 10*time.Millisecond)
	for range 10 {
		_, err = f.tenant(a, 1).Append(within(t, time.Minute), messages.Event{Kind: "k"})
		require.NoError(t, err)
	}
	require.LessOrEqual(t, len(a.Members()), 1001)
	for _, m := range a.Members() {
		require.Less(t, len(m.Owner)+len(m.Name), 1000)
	}
	require.Less(t, len(log.String()), 64<<10, "66 MB were written of 5,000")
	t.Logf("%d members, %d bytes of log", len(a.Members()), len(log.String()))
}
