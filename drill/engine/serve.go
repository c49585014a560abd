package engine

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"

	"github.com/leasehold/leasehold/stores/nats/natsserver"
	"github.com/leasehold/leasehold/stores/s3/s3test"
)

// readyLine is what a child process prints when its server answers.
const readyLine = "ready"

// Serve is a NATS or S3 server on a folder and a host:port, in a process that Start has started for it. It
// ends with in, or with ctx, or when it is killed.
func Serve(ctx context.Context, kind Kind, folder, address string, in io.Reader, out io.Writer) error {
	switch kind {
	case S3:
		return s3test.Serve(folder, address) // which ends with standard input
	case NATS:
		_, text, err := net.SplitHostPort(address)
		if err != nil {
			return fmt.Errorf("the address of a server: %w", err)
		}
		port, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("the address of a server: %w", err)
		}
		s, err := natsserver.Start(ctx, natsserver.Config{Dir: folder, Port: port})
		if err != nil {
			return err
		}
		defer s.Shutdown()
		if err := s.Ready(ctx); err != nil {
			return err
		}
		fmt.Fprintln(out, readyLine)
		_, err = io.Copy(io.Discard, in) // until its drill is gone
		return err
	}
	return fmt.Errorf("%q is no server that the drill can be", kind)
}
