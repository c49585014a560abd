package record

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// CheckFolder returns an error for a folder that a run must not use, because there is something in it: what an earlier
// run remembers would be judged with it. A folder that does not exist is fine.
func CheckFolder(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("the folder of the run: %w", err)
	case len(entries) > 0:
		return fmt.Errorf("the folder of the run is not empty: %s", dir)
	}
	return nil
}
