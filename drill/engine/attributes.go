package engine

import "syscall"

// Attributes are those of a process that must end with the drill, whatever becomes of the drill: it is in a
// group of its own, and the kernel kills it when its parent dies (Linux).
func Attributes() *syscall.SysProcAttr { return attributes() }
