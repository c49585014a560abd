package localfile

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/leasehold/leasehold/messages"
)

// What a Linux system call takes, in bytes.
const (
	MaxPathBytes = 4095 // PATH_MAX without the NUL at its end
	MaxNameBytes = 255
)

// CheckPath returns CodeInvalidArgument if what (it is the beginning of the message) cannot stand at path, because a path there would
// have more than limit bytes, or a name in it more than MaxNameBytes. below is the longest that will be appended to path. Symbolic
// links count as what they stand for, where that is longer. path need not exist; nothing is created.
func CheckPath(what, path, below string, limit int) error {
	abs, err := filepath.Abs(path)
	if err != nil {
		return &messages.Error{Code: messages.CodeStorage, Message: what + " has no absolute path", Err: err}
	}
	for name := range strings.SplitSeq(abs+below, string(filepath.Separator)) {
		if len(name) > MaxNameBytes {
			return &messages.Error{Code: messages.CodeInvalidArgument,
				Message: fmt.Sprintf("the path of %s is too long: a name in it would have %d bytes, and may have %d", what, len(name), MaxNameBytes)}
		}
	}
	has := max(len(abs), len(resolve(abs)))
	if has+len(below) <= limit {
		return nil
	}
	return &messages.Error{Code: messages.CodeInvalidArgument, Message: fmt.Sprintf(
		"the path of %s is too long: it has %d bytes, and may have %d, so that those of its files have at most %d", what, has, limit-len(below), limit)}
}

// resolve follows the symbolic links in the part of path that exists; where that fails, path stays as it is.
func resolve(path string) string {
	rest := ""
	for at := path; ; at = filepath.Dir(at) {
		real, err := filepath.EvalSymlinks(at)
		if err == nil {
			return filepath.Join(real, rest)
		}
		if at == filepath.Dir(at) || !errors.Is(err, fs.ErrNotExist) {
			return path
		}
		rest = filepath.Join(filepath.Base(at), rest)
	}
}
