package cluster

import (
	"context"

	"github.com/leasehold/leasehold/messages"
)

// Remember makes a member believe that it handed a tenant to another one a moment ago.
func (m *Member) Remember(key messages.Key, to string) { m.departures.remember(key, to) }

// MoveTo hands a tenant to another member, whatever this one thinks of it.
func (m *Member) MoveTo(ctx context.Context, key messages.Key, to string) error {
	return m.move(ctx, key, to)
}
