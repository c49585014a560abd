package run

import "syscall"

// attributes puts a replica into a process group of its own, so that a Ctrl-C reaches the drill alone,
// and lets the kernel kill it when the drill dies, however that happens.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
