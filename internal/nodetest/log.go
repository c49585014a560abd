// Package nodetest is what the tests of running nodes share, whether the node is a process or runs inside the test.
//
// A newcomer starts with [Log]: what a node writes while the test goes on.
package nodetest

import (
	"bytes"
	"sync"
)

// Log takes what a node writes, and can be read meanwhile. The zero Log is empty. It is safe for concurrent use.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer. It never fails.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns everything that was written so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
