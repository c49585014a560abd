package record

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Printer returns a function that tells whoever watches a run what happens: one line with the seconds since begun. Nobody
// watches where out is nil. It is safe for concurrent use.
func Printer(out io.Writer, begun time.Time) func(format string, args ...any) {
	if out == nil {
		return func(string, ...any) {}
	}
	var mu sync.Mutex
	return func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		// Whoever does not listen any more must not stop the drill.
		_, _ = fmt.Fprintf(out, "%7.3fs "+format+"\n", append([]any{time.Since(begun).Seconds()}, args...)...)
	}
}
