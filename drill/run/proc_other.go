//go:build !linux

package run

import "syscall"

// attributes puts a replica into a process group of its own, so that a Ctrl-C reaches the drill alone.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
