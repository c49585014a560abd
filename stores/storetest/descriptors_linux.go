package storetest

import (
	"errors"
	"os"
	"strconv"
	"syscall"
	"testing"
)

// FewDescriptors leaves this process a number of file descriptors that it can still open, and returns what gives the others back; the
// end of the test does that too. No test that is parallel can use it: the process has other users then.
func FewDescriptors(t testing.TB, free int) (back func()) {
	t.Helper()
	t.Setenv("LEASEHOLD_FEW_DESCRIPTORS", strconv.Itoa(free)) // it fails a parallel test
	r, w, err := os.Pipe()                                    // so that the runtime has what it waits for files with
	if err != nil {
		t.Fatal(err)
	}
	var limit syscall.Rlimit
	if err := errors.Join(syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit), r.Close(), w.Close()); err != nil {
		t.Fatal(err)
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	last := 0
	for _, e := range open {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			last = max(last, n)
		}
	}
	few := syscall.Rlimit{Cur: uint64(last + 1 + free), Max: limit.Max}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	var taken []*os.File
	done := false
	back = func() {
		if done {
			return
		}
		done = true
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Error(err)
		}
		for _, f := range taken {
			_ = f.Close() // nothing was written
		}
	}
	t.Cleanup(back)
	for { // descriptors below the last one may be free
		f, err := os.Open(os.DevNull)
		if errors.Is(err, syscall.EMFILE) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		taken = append(taken, f)
	}
	for range free {
		_ = taken[len(taken)-1].Close()
		taken = taken[:len(taken)-1]
	}
	return back
}

// FillInodes creates files until there are no inodes left but a number, and returns what removes them again.
func FillInodes(t testing.TB, folder string, free int) (remove func()) {
	t.Helper()
	filler, err := os.MkdirTemp(folder, "filler")
	if err != nil {
		t.Fatal(err)
	}
	var made []string
	for {
		f, err := os.CreateTemp(filler, "")
		if errors.Is(err, syscall.ENOSPC) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		made = append(made, f.Name())
		_ = f.Close() // it is empty
	}
	for _, name := range made[len(made)-free:] {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		if err := os.RemoveAll(filler); err != nil {
			t.Error(err)
		}
	}
}
