package actors

import "time"

// beats is how many times in RenewEvery a node renews: each time those of its tenants that are due, which so
// share their round trips, instead of each tenant at a moment of its own. With fewer beats there would be
// fewer round trips, and larger bursts of work.
const beats = 8

// untilRenewal returns how long a tenant that was granted or renewed now waits for its next renewal: to the last
// beat that is not later than RenewEvery from now, which is at least 7/8 of it. A tenant that is handled late
// catches up with its beat. No promise rests on beats: a window runs from the sending of each renewal, whenever
// that is.
func (n *Node) untilRenewal() time.Duration {
	every := n.cfg.RenewEvery
	return every - (time.Duration(n.sinceStart())+every)%max(every/beats, 1)
}
