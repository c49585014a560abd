package daemon

import (
	"bytes"
	"runtime/pprof"
	"sync"
	"syscall"
)

// heedSignals reacts to signals until the function that it returns is called.
func (d *daemon) heedSignals() (end func()) {
	over := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case sig := <-d.Signals:
				switch sig {
				case syscall.SIGHUP:
					d.reload()
					continue
				case syscall.SIGQUIT, syscall.SIGABRT: // who sends them wants to see what a Go program shows
					d.logStacks()
				}
				if d.asked.Err() != nil {
					d.Log.Warn("the node is shutting down already; only kill -9 ends it at once, and loses what no snapshot holds", "signal", sig)
				}
				d.ask()
			case <-over:
				return
			}
		}
	})
	return func() { close(over); running.Wait() }
}

func (d *daemon) logStacks() {
	var stacks bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&stacks, 1); err == nil { // 1: goroutines alike are counted
		d.Log.Warn("the stacks of all goroutines", "stacks", stacks.String())
	}
}

// reload reads the files of secrets and the log's level again. What cannot be used is logged, and the old stays in use.
func (d *daemon) reload() {
	d.Log.Info("SIGHUP: tokens, certificates and the log level are read again")
	d.secrets.reload()
	if d.Reread == nil {
		return
	}
	c, err := d.Reread()
	if err != nil {
		d.Log.Error("the configuration cannot be read again; the old one stays in use", "error", err)
		return
	}
	c = c.Effective()
	level, err := c.Level()
	switch {
	case err != nil:
		d.Log.Error("the new log level cannot be used; the old one stays", "error", err)
	case d.Level != nil:
		d.Level.Set(level)
	}
	c.LogLevel = d.Config.LogLevel
	was := d.Config
	was.MaxOpen, was.MaxConnections = d.configured.tenants, d.configured.connections
	if changed := c.Changed(was); len(changed) > 0 {
		d.Log.Warn("these settings have changed, and need a restart", "settings", changed)
	}
}
