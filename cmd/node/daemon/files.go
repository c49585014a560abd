package daemon

import "syscall"

// Of the process's file descriptors, reservedFiles stay for stores and copies, and up to a quarter of the rest are for the connections of
// each listener; an open tenant takes three, and one that is read from, or copied, up to four more for a while.
const (
	reservedFiles    = 64
	filesPerTenant   = 5
	connectionsShare = 4
)

// bounds is what the limit of file descriptors bears.
type bounds struct{ tenants, connections int }

// bound lowers the bounds of open tenants and of connections to what the limit of file descriptors bears. Without it
// either would take the last one: the node could accept no connection any more, not even those that would tell
// about it, or could save no tenant.
func (d *daemon) bound() bounds {
	asked := d.configured
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		d.Log.Warn("the limit of file descriptors is not known", "error", err)
		return asked
	}
	listeners := 1
	if d.Config.Embedded {
		listeners = 2
	}
	b := boundsOf(files.Cur, listeners, asked)
	if b != asked {
		d.Log.Warn("the limit of file descriptors bounds the open tenants and connections", "files", files.Cur, "max_open", b.tenants,
			"max_connections", b.connections, "configured_max_open", asked.tenants, "configured_max_connections", asked.connections)
	}
	return b
}

func boundsOf(files uint64, listeners int, asked bounds) bounds {
	room := uint64(0)
	if files > reservedFiles {
		room = files - reservedFiles
	}
	b := bounds{connections: max(1, int(min(room/connectionsShare, uint64(asked.connections))))}
	room -= min(room, uint64(b.connections*listeners))
	b.tenants = max(1, int(min(room/filesPerTenant, uint64(asked.tenants))))
	return b
}
