package natsserver

import (
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/nats-io/nats-server/v2/server"
)

// NewLogger returns a logger for Config.Logger that writes to log: notices at the level debug, warnings
// and errors as such.
func NewLogger(log *slog.Logger) server.Logger { return slogger{log} }

type slogger struct{ log *slog.Logger }

func text(format string, v []any) string { return "NATS server: " + fmt.Sprintf(format, v...) }

func (l slogger) Noticef(format string, v ...any) { l.log.Debug(text(format, v)) }
func (l slogger) Debugf(format string, v ...any)  { l.log.Debug(text(format, v)) }
func (l slogger) Tracef(string, ...any)           {} // it would hold what clients send
func (l slogger) Warnf(format string, v ...any)   { l.log.Warn(text(format, v)) }
func (l slogger) Fatalf(format string, v ...any)  { l.log.Error(text(format, v)) }

// Errorf implements server.Logger. That the first attempt to reach another server fails is to be expected: those of a
// cluster start one after the other, and stop so. What stays away is reported again.
func (l slogger) Errorf(format string, v ...any) {
	if strings.HasPrefix(format, "Error trying to connect to route") && len(v) > 0 && fmt.Sprint(v[0]) == "1" {
		l.log.Debug(text(format, v))
		return
	}
	l.log.Error(text(format, v))
}

// fatal keeps the first message that the server calls fatal: what it cannot do (listen on a port, above
// all) it reports in no other way, and an embedded server must not end the process.
type fatal struct {
	server.Logger
	first atomic.Pointer[string]
}

func (f *fatal) Fatalf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	f.first.CompareAndSwap(nil, &text)
	f.Logger.Fatalf(format, v...)
}
