//go:build !linux

package engine

import "syscall"

// attributes keeps a Ctrl-C away from the server.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
