package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// Writer appends lines to a file. It is safe for concurrent use.
type Writer struct {
	proc string
	// Wall is counted from here by the monotonic clock. A process that is stopped between two readings of two
	// clocks would record two different times.
	wall time.Time
	at   int64

	mu   sync.Mutex
	file *os.File
	err  error // the first failure: what follows it would be a gap
}

// Create opens the file of one process, which must not exist yet.
func Create(path, proc string) (*Writer, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("create a record: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create a record: %w", err)
	}
	return &Writer{proc: proc, wall: time.Now().UTC().Round(0), at: Now(), file: f}, nil
}

// Write stamps a line with the process and, unless At is set, with the time, and appends it with one
// write call. When it returns nil the line survives the process.
func (w *Writer) Write(l Line) error {
	l.Proc = w.proc
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	if l.At == 0 {
		l.At = Now()
	}
	l.Wall = w.wall.Add(time.Duration(l.At - w.at))
	data, err := l.Encode()
	if err == nil {
		_, err = w.file.Write(data)
	}
	w.err = err
	return err
}

// Close closes the file.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := errors.Join(w.err, w.file.Close())
	if w.err == nil {
		w.err = fs.ErrClosed
	}
	return err
}

// ReadFile returns the lines of a file. A last line without its line feed was torn by the end of its
// process, and is dropped.
func ReadFile(path string) ([]Line, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read a record: %w", err)
	}
	lines, _, err := decodeAll(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return lines, nil
}

// ReadDir returns the lines of all records (*.jsonl) of a directory, in the order of their times.
func ReadDir(dir string) ([]Line, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		return nil, fmt.Errorf("read records: %w", err)
	}
	var all []Line
	for _, path := range paths {
		lines, err := ReadFile(path)
		if err != nil {
			return nil, err
		}
		all = append(all, lines...)
	}
	slices.SortStableFunc(all, func(a, b Line) int {
		switch {
		case a.At < b.At:
			return -1
		case a.At > b.At:
			return 1
		}
		return 0
	})
	return all, nil
}

// decodeAll decodes the whole lines of data, and returns how many bytes they are.
func decodeAll(data []byte) (lines []Line, used int, err error) {
	for {
		end := bytes.IndexByte(data[used:], '\n')
		if end < 0 {
			return lines, used, nil
		}
		l, err := Decode(data[used : used+end])
		if err != nil {
			return lines, used, fmt.Errorf("line %d: %w", len(lines)+1, err)
		}
		lines = append(lines, l)
		used += end + 1
	}
}

// Tail reads a file that still grows. It is for one goroutine.
type Tail struct {
	path string
	file *os.File
	rest []byte
}

// NewTail follows a file that may not exist yet.
func NewTail(path string) *Tail { return &Tail{path: path} }

// Next returns the lines that were completed since the last call; none is no error.
func (t *Tail) Next() ([]Line, error) {
	if t.file == nil {
		f, err := os.Open(t.path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("follow a record: %w", err)
		}
		t.file = f
	}
	more, err := io.ReadAll(t.file)
	if err != nil {
		return nil, fmt.Errorf("follow a record: %w", err)
	}
	t.rest = append(t.rest, more...)
	lines, used, err := decodeAll(t.rest)
	t.rest = slices.Clone(t.rest[used:])
	return lines, err
}

// Close closes the file.
func (t *Tail) Close() error {
	if t.file == nil {
		return nil
	}
	return t.file.Close()
}
