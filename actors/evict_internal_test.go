package actors

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/mailbox"
)

// silent is an actor that takes everything and answers nothing.
type silent struct{}

func (silent) Started(*mailbox.Self)      {}
func (silent) Receive(*mailbox.Self, any) {}
func (silent) Refuse(*mailbox.Self, any)  {}
func (silent) Stopping(*mailbox.Self)     {}

// BenchmarkRoomAmong10000 prints what it costs the supervisor to choose whom to evict.
func BenchmarkRoomAmong10000(b *testing.B) {
	sys := mailbox.NewSystem(slog.New(slog.DiscardHandler))
	m, err := newMetrics(prometheus.NewRegistry())
	require.NoError(b, err)
	n := &Node{cfg: Config{}.withDefaults(), system: sys, metrics: m}
	s := newSupervisor(n)
	for i := range 10_000 {
		act := &activation{node: n, key: messages.Key{Org: "acme", Tenant: messages.TenantID(fmt.Sprintf("t-%032x", i))}}
		act.ref = sys.Spawn(silent{})
		act.serving.Store(true)
		act.used.Store(int64(i))
		s.entries[act.key] = act
	}
	used := int64(10_000)
	for b.Loop() {
		s.purge()
		act := s.oldest()
		used++
		act.used.Store(used)
	}
}
