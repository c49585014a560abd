package client

// Stats counts what a Client has done since it was made.
type Stats struct {
	// Requests were asked for.
	Requests uint64
	// Hedges are the questions that were asked because an attempt was not answered soon (Config.HedgeAfter), Resent
	// the requests that were sent a second time after one, and Won the attempts that a hedge has answered.
	Hedges, Resent, Won uint64
	// Denied are hedges that could not do all of this, because there had been too many.
	Denied uint64
}

// Stats returns the counters as they are now. It is safe for concurrent use.
func (c *Client) Stats() Stats {
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	return c.budget.stats
}
