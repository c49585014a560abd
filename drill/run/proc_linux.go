package run

import "syscall"

// attributes puts a replica into a process group of its own, so that a Ctrl-C reaches the drill alone,
// and lets the kernel kill it when the drill dies, however that happens. (To the kernel it is the thread
// that started it which dies; Go ends a thread only with a goroutine that was locked to it, and the drill locks none.)
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
