package powercut

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Write writes what a power cut leaves after these syncs of a recorder's folder into another folder, which must exist. Files have
// mode 0600, folders 0700.
func (r *Recorder) Write(syncs []Sync, folder string) error {
	latest := map[device]Sync{}
	for _, s := range syncs {
		latest[s.node] = s
	}
	var root unix.Stat_t
	if err := unix.Stat(r.folder, &root); err != nil {
		return err
	}
	return write(latest, device{uint64(root.Dev), root.Ino}, folder) //nolint:unconvert // as in hold
}

func write(latest map[device]Sync, node device, path string) error {
	for name, child := range latest[node].names {
		to := filepath.Join(path, name)
		if !child.folder {
			if err := os.WriteFile(to, latest[child.node].content, 0o600); err != nil {
				return err
			}
			continue
		}
		if err := os.Mkdir(to, 0o700); err != nil {
			return err
		}
		if err := write(latest, child.node, to); err != nil {
			return err
		}
	}
	return nil
}
