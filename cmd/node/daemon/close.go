package daemon

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

// closeTimeout bounds how long the end of the process waits for what was opened to be closed: what is not closed by
// then ends with the process. A NATS server inside it takes up to leaveTimeout of that.
const closeTimeout = 3 * leaveTimeout

// close closes the listener, the membership and the stores. It returns CodeDeadlineExceeded, naming what does
// not end, after closeTimeout.
func (d *daemon) close(refused bool) error {
	var errs []error
	if d.listener != nil {
		if err := d.listener.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	timeout := time.NewTimer(closeTimeout)
	defer timeout.Stop()
	// The stores last to first; the node, with its batches of renewals, has ended before.
	for _, c := range slices.Backward(d.closers) {
		closed := make(chan error, 1)
		end := c.Close
		if s, ok := c.(stores.Discarder); ok && refused {
			end = s.Discard
		}
		go func() { closed <- end() }()
		select {
		case err := <-closed:
			errs = append(errs, err)
		case <-timeout.C: // what was opened before it is used by it, and must stay open
			return errors.Join(append(errs, &messages.Error{Code: messages.CodeDeadlineExceeded, Message: fmt.Sprintf("%T was not closed in time", c)})...)
		}
	}
	return errors.Join(errs...)
}
