package stores

import (
	"fmt"

	"github.com/leasehold/leasehold/messages"
)

// Oversized is the refusal of a Get whose object is larger than its reader allows, with CodeCorrupt and the Cause CodeTooLarge: it
// names the object, its size, and what the reader allows. For those who write a DurableStore.
func Oversized(key string, size, most int64) error {
	return &messages.Error{Code: messages.CodeCorrupt, Cause: messages.CodeTooLarge, Object: key,
		Message: fmt.Sprintf("the object has %d bytes; at most %d belong there", size, most)}
}
