package cluster

import "github.com/leasehold/leasehold/messages"

// Remember makes a member believe that it handed a tenant to another one a moment ago.
func (m *Member) Remember(key messages.Key, to string) { m.departures.remember(key, to) }
