package cluster

import (
	"fmt"

	"github.com/leasehold/leasehold/messages"
)

// envelope is what a message has room for beside what a request carries.
const envelope = messages.MaxMessageBytes - messages.MaxRequestBytes

// fits refuses a request that carries more than could travel between members, also where it does not have to: whether
// a request is too large must not depend on which member owns the tenant. With a server that takes
// messages.MaxMessageBytes, as it should, that is the limit of every request.
func (m *Member) fits(req *messages.Request) error {
	limit := int(m.conn.MaxPayload()) - envelope
	if n := req.Size(); limit > 0 && n > limit {
		return &messages.Error{Code: messages.CodeTooLarge, Key: req.Key.String(),
			Message: fmt.Sprintf("the request carries %d bytes, at most %d can travel between members (max_payload of the NATS server)", n, limit)}
	}
	return nil
}

// warnOfLimit says what a server of one's own with its default settings takes.
func (m *Member) warnOfLimit() {
	if most := m.conn.MaxPayload(); most > 0 && most < messages.MaxMessageBytes {
		m.log.Warn("the NATS server takes smaller messages than it should: larger requests and answers are refused as too large", "max_payload", most, "needed", messages.MaxMessageBytes)
	}
}
