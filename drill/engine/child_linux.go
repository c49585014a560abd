package engine

import "syscall"

// attributes keeps a Ctrl-C away from the server, and lets the kernel kill it when the drill dies, stopped or not.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
