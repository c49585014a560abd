package config

import (
	"log/slog"
	"os"
	"sync"
)

// Watched is what was made of files, and follows them: it is made anew when they are found changed, and by Reload. While
// that fails, the log says so and the old stays in use. It is safe for concurrent use.
type Watched[T any] struct {
	what  string
	files []string
	load  func() (T, error)
	log   *slog.Logger

	mu    sync.Mutex
	seen  []os.FileInfo // as they were just before they were read; nil for one that is not there
	value T
}

// Watch returns what load makes of files. Paths that are empty stand for no file; what names it all in the log.
func Watch[T any](log *slog.Logger, what string, files []string, load func() (T, error)) (*Watched[T], error) {
	w := &Watched[T]{what: what, files: files, load: load, log: log}
	w.seen = w.look()
	var err error
	w.value, err = load()
	return w, err
}

// Current returns what the files hold now, or held when they could last be used.
func (w *Watched[T]) Current() T {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.look()
	for i := range now {
		if !same(w.seen[i], now[i]) {
			w.read(now)
			break
		}
	}
	return w.value
}

// Reload reads the files, changed or not.
func (w *Watched[T]) Reload() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.read(w.look())
}

func (w *Watched[T]) read(now []os.FileInfo) {
	w.seen = now
	value, err := w.load()
	if err != nil {
		w.log.Error("the new "+w.what+" cannot be used; the old ones stay in use", "error", err)
		return
	}
	w.log.Info("the " + w.what + " were read again")
	w.value = value
}

func (w *Watched[T]) look() []os.FileInfo {
	out := make([]os.FileInfo, len(w.files))
	for i, path := range w.files {
		if info, err := os.Stat(path); err == nil && path != "" {
			out[i] = info
		}
	}
	return out
}

// same reports whether a file is the one that was read: not another one under its name, as a symbolic link that
// was turned would be, and not written to since.
func same(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
