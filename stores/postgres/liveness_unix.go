//go:build unix

package postgres

import (
	"context"
	"syscall"

	"github.com/jackc/pgx/v5/stdlib"
	"golang.org/x/sys/unix"
)

// lookedDead looks at an idle connection without a round trip: nothing should have arrived on it. If
// something has, which may be its end, a ping tells whether it can still be used; and if it cannot, the
// statement goes out on another one, and its outcome is known.
func lookedDead(_ context.Context, p stdlib.ShouldPingParams) bool {
	conn, ok := p.Conn.PgConn().Conn().(syscall.Conn)
	if !ok { // TLS hides its socket
		return p.IdleDuration > idlePing
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return true
	}
	quiet := false
	// Control, not Read: pgx may leave a reader of its own waiting on the connection, and Read would wait for that.
	if err := raw.Control(func(fd uintptr) {
		_, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		quiet = err == unix.EAGAIN || err == unix.EWOULDBLOCK
	}); err != nil {
		return true
	}
	return !quiet
}
