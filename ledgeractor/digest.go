package ledgeractor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"

	"github.com/leasehold/leasehold/messages"
)

// Digest returns the SHA-256, in lower-case hex, of the image that Handle.Cut would return of a ledger that no process
// serves: its file, with what its write-ahead log holds. Two ledgers with the same Digest have the same pages. It needs
// room for a copy beside the file, which it removes again, and changes no content. The errors are CodeCorrupt for what
// cannot be read as a database, CodeStorage for a disk that fails, and those of ctx.
func Digest(ctx context.Context, path string, key messages.Key) (digest string, err error) {
	fail := newFailures(key, path)
	if err := checkMagic(path, fail); err != nil {
		return "", err
	}
	source, err := openSQLite(path, map[string]string{"mode": "ro", "_busy_timeout": busyTimeoutMS, "_query_only": "1"})
	if err != nil {
		return "", fail.typed(err)
	}
	defer func() { _ = source.Close() }() // nothing was written on it
	if err := pinRead(source); err != nil {
		return "", fail.typed(err)
	}
	hash := sha256.New()
	if err := copyByFile(ctx, fail, path, source, nil, func(file *os.File) error {
		_, err := io.Copy(hash, file)
		return err
	}); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
