package ledgeractor

// Epoch returns the epoch of the lease that the ledger is served under: that of every write which
// this handle acknowledges.
func (h *Handle) Epoch() uint64 { return h.cfg.Epoch }
