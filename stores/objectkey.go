package stores

import (
	"fmt"
	"strings"

	"github.com/leasehold/leasehold/messages"
)

// Limits of the key of a durable object, in bytes. They leave room for a root directory within the
// path limits of common file systems, and for a bucket prefix within the 1,024 bytes of S3.
const (
	MaxObjectKeyBytes     = 900
	MaxObjectSegmentBytes = 200
)

// ValidateObjectKey returns an error with CodeOutOfRange unless key is one or more segments of
// [A-Za-z0-9._-] joined by slashes, none of them empty or beginning with a dot. It is what every
// binding of DurableStore applies in PutIfAbsent, Get and Delete before it touches anything.
func ValidateObjectKey(key string) error {
	if len(key) > MaxObjectKeyBytes {
		return badKey(key, fmt.Sprintf("longer than %d bytes", MaxObjectKeyBytes))
	}
	for segment := range strings.SplitSeq(key, "/") {
		if segment == "" {
			return badKey(key, "empty segment")
		}
		if why := badSegment(segment); why != "" {
			return badKey(key, why)
		}
	}
	return nil
}

// ValidateListPrefix returns an error with CodeOutOfRange unless prefix is "" or could begin an
// object key. It may end inside the last segment.
func ValidateListPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	// The rest of the last segment is free, so an empty one is fine there, and only there.
	return ValidateObjectKey(strings.TrimSuffix(prefix, "/"))
}

// ValidateDeletePrefix returns an error with CodeOutOfRange unless prefix is whole segments and ends
// in a slash: "org/" can never take "org2/" with it, and "" can never take everything.
func ValidateDeletePrefix(prefix string) error {
	whole, ok := strings.CutSuffix(prefix, "/")
	if !ok {
		return badKey(prefix, "a prefix to delete must end in a slash")
	}
	return ValidateObjectKey(whole)
}

func badSegment(segment string) string {
	if len(segment) > MaxObjectSegmentBytes {
		return fmt.Sprintf("segment longer than %d bytes", MaxObjectSegmentBytes)
	}
	if segment[0] == '.' {
		return "segment begins with a dot"
	}
	for i := range len(segment) {
		c := segment[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return "a character other than A-Z a-z 0-9 . _ - /"
		}
	}
	// ".." is refused wherever it stands, not only as a segment: no file system, shell or URL that a
	// key passes through may find a way up in it.
	if strings.Contains(segment, "..") {
		return "two dots in a row"
	}
	return ""
}

func badKey(key, why string) error {
	// A hostile key may be long or unprintable; %q and the cut keep the error fit for a log.
	if len(key) > 80 {
		key = key[:80] + "…"
	}
	return &messages.Error{Code: messages.CodeOutOfRange, Message: fmt.Sprintf("object key %q: %s", key, why)}
}
