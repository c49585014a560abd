//go:build !linux

package engine

import "syscall"

// Attributes are those of a process of the drill: it is in a process group of its own, so that a Ctrl-C reaches the drill
// alone.
func Attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
