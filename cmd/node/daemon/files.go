package daemon

import "syscall"

// Of the process's file descriptors, reservedFiles stay for connections, stores and copies; an open
// tenant takes three, and one that is read from, or copied, up to four more for a while.
const (
	reservedFiles  = 64
	filesPerTenant = 5
)

// boundOpen lowers the bound of open tenants to what the limit of file descriptors bears. Without it
// tenants would take the last one, and the node could accept no connection any more: not even those
// that would tell about it.
func (d *daemon) boundOpen(maxOpen int) int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		d.Log.Warn("the limit of file descriptors is not known", "error", err)
		return maxOpen
	}
	bound := openBound(uint64(files.Cur), maxOpen)
	if bound < maxOpen {
		d.Log.Warn("the limit of file descriptors bounds the open tenants", "files", files.Cur, "max_open", bound, "configured", maxOpen)
	}
	return bound
}

func openBound(files uint64, maxOpen int) int {
	room := uint64(1)
	if files > reservedFiles+filesPerTenant {
		room = (files - reservedFiles) / filesPerTenant
	}
	if room < uint64(maxOpen) {
		return int(room)
	}
	return maxOpen
}
