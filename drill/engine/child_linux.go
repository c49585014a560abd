package engine

import "syscall"

// Attributes are those of a process that must end with the drill: it is in a process group of its own, so that a
// Ctrl-C reaches the drill alone, and the kernel kills it when the drill dies, stopped or not, however that happens. (To
// the kernel it is the thread that started it which dies; Go ends a thread only with a goroutine that was locked to it,
// and the drill locks none.)
func Attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
