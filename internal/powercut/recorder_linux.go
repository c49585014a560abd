// Package powercut shows in tests what a power cut would leave. It runs a command, records which files and folders it has synced, and
// writes what a file system that forgets everything else would hold then into a new folder, where the next start can be tried.
//
// It watches the command's system calls with ptrace, so that it sees what the very binary does, whatever language a part
// of it is written in, and needs neither root nor a file system of its own. It is stricter than most file systems: a
// file keeps the content of its last fsync or fdatasync, a folder the names of its last fsync, and nothing else counts. What a program
// makes durable in other ways (O_SYNC, msync, sync) is not seen, and so is lost.
package powercut

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Recorder is a command that runs, or has run, and what it has synced. Its methods are safe for concurrent use.
type Recorder struct {
	folder string
	pid    int
	done   chan struct{}

	mu    sync.Mutex
	ended bool // the command was waited for, and its id may be another's
	err   error
	syncs []Sync
	nodes map[device]*os.File // held, so that the numbers of deleted files are not used again
}

// device names a file on this machine for as long as somebody holds it.
type device struct{ dev, inode uint64 }

// Sync is one sync of a file or folder that has succeeded.
type Sync struct {
	// Path is relative to the recorder's folder, as the file was named then; "." is the folder itself.
	Path    string
	node    device
	content []byte           // of a file
	names   map[string]entry // of a folder
}

type entry struct {
	node   device
	folder bool
}

// Start starts a command, and records what it and the processes that it starts sync below a folder, which must exist: the folder itself
// is taken to survive. Who calls Start must call Kill. An error that is fs.ErrPermission says that this machine does not allow ptrace.
func Start(cmd *exec.Cmd, folder string) (*Recorder, error) {
	folder, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return nil, err
	}
	r := &Recorder{folder: folder, done: make(chan struct{}), nodes: map[device]*os.File{}}
	started := make(chan error)
	go func() {
		defer close(r.done)
		runtime.LockOSThread() // a tracer is a thread; it ends with this goroutine, so that nothing inherits its state
		attr := syscall.SysProcAttr{}
		if cmd.SysProcAttr != nil {
			attr = *cmd.SysProcAttr
		}
		attr.Ptrace = true
		cmd.SysProcAttr = &attr
		err := cmd.Start()
		if err == nil {
			r.pid = cmd.Process.Pid
			err = r.attach()
		}
		started <- err
		if err == nil {
			r.fail(r.trace())
		}
	}()
	return r, <-started
}

// Syncs returns what has been synced so far, in order. What the command has told somebody by now was preceded by these.
func (r *Recorder) Syncs() []Sync {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.syncs[:len(r.syncs):len(r.syncs)]
}

// Wait waits until the command has ended.
func (r *Recorder) Wait() { <-r.done }

// Kill ends the command with SIGKILL, if it has not ended, and waits for it. It returns what went wrong while it was recorded.
func (r *Recorder) Kill() error {
	r.mu.Lock()
	if !r.ended {
		_ = syscall.Kill(r.pid, syscall.SIGKILL) // it may be a zombie
	}
	r.mu.Unlock()
	<-r.done
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.nodes {
		_ = f.Close() // it was only held
	}
	clear(r.nodes)
	return r.err
}

func (r *Recorder) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = errors.Join(r.err, err)
}

const stopped = unix.SIGTRAP | 0x80 // at a system call (PTRACE_O_TRACESYSGOOD)

func (r *Recorder) attach() error {
	var status unix.WaitStatus
	if _, err := unix.Wait4(r.pid, &status, 0, nil); err != nil || !status.Stopped() {
		return fmt.Errorf("the command did not stop at its beginning: %v, %w", status, err)
	}
	if err := unix.PtraceSetOptions(r.pid, unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_EXITKILL|unix.PTRACE_O_TRACEEXEC|
		unix.PTRACE_O_TRACECLONE|unix.PTRACE_O_TRACEFORK|unix.PTRACE_O_TRACEVFORK); err != nil {
		return err
	}
	return unix.PtraceSyscall(r.pid, 0)
}

// trace goes on until the last process of the command has ended.
func (r *Recorder) trace() error {
	pending := map[int]*Sync{} // of threads that are syncing
	known := map[int]bool{r.pid: true}
	var failed error
	for {
		var status unix.WaitStatus
		thread, err := r.wait(&status)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ECHILD):
			return failed
		case err != nil:
			return errors.Join(failed, err)
		case !status.Stopped():
			delete(known, thread)
			if thread == r.pid { // what it has started ends with it
				for other := range known {
					_ = unix.Kill(other, unix.SIGKILL) // it may have ended
				}
			}
			continue
		}
		signal := 0
		switch s := status.StopSignal(); {
		case s == stopped:
			failed = errors.Join(failed, r.call(thread, pending))
		case s == unix.SIGTRAP && status.TrapCause() > 0: // a thread, a process or a program begins
		case s == unix.SIGSTOP && !known[thread]: // its first stop
		default:
			signal = int(s)
		}
		known[thread] = true
		if err := unix.PtraceSyscall(thread, signal); err != nil && !errors.Is(err, unix.ESRCH) {
			failed = errors.Join(failed, err)
		}
	}
}

// wait waits for a stop, or the end, of any thread of the command; it leaves the other children of this process alone.
func (r *Recorder) wait(status *unix.WaitStatus) (thread int, err error) {
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT|unix.WALL|unix.WNOTHREAD, nil); err != nil {
		return 0, err
	}
	r.mu.Lock() // from here on until it is noted, nobody sends a signal to an id that is free again
	defer r.mu.Unlock()
	thread, err = unix.Wait4(-1, status, unix.WALL|unix.WNOTHREAD, nil)
	if err == nil && thread == r.pid && !status.Stopped() {
		r.ended = true
	}
	return thread, err
}

// callInfo is struct ptrace_syscall_info, which is the same on all machines.
type callInfo struct {
	op       uint8
	_        [3]uint8
	_        uint32
	_, _     uint64
	callOrIs uint64 // the number of the call at its entry, the result at its exit
	args     [6]uint64
	_        [2]uint64
}

func (r *Recorder) call(thread int, pending map[int]*Sync) error {
	var info callInfo
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(thread), unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)), 0, 0); errno != 0 {
		if errno == unix.ESRCH {
			return nil // it was killed
		}
		return errno
	}
	switch {
	case info.op == unix.PTRACE_SYSCALL_INFO_ENTRY && (info.callOrIs == unix.SYS_FSYNC || info.callOrIs == unix.SYS_FDATASYNC):
		s, err := r.look(fmt.Sprintf("/proc/%d/fd/%d", thread, int32(info.args[0])))
		pending[thread] = s
		return err
	case info.op == unix.PTRACE_SYSCALL_INFO_EXIT && pending[thread] != nil:
		if info.callOrIs == 0 {
			r.mu.Lock()
			r.syncs = append(r.syncs, *pending[thread])
			r.mu.Unlock()
		}
		delete(pending, thread)
	}
	return nil
}

// look returns what a sync is about to save; nil if that is not below the folder. Whoever syncs waits meanwhile.
func (r *Recorder) look(link string) (*Sync, error) {
	path, err := os.Readlink(link)
	if err != nil {
		return nil, nil // a bad descriptor; the call fails
	}
	rel, err := filepath.Rel(r.folder, path)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return nil, nil
	}
	s := &Sync{Path: rel}
	if s.node, err = r.hold(link, 0); err != nil {
		return nil, err
	}
	info, err := os.Stat(link)
	switch {
	case err != nil:
		return nil, err
	case info.Mode().IsRegular():
		s.content, err = os.ReadFile(link)
		return s, err
	}
	s.names = map[string]entry{}
	entries, err := os.ReadDir(link)
	for _, e := range entries {
		node, err := r.hold(filepath.Join(link, e.Name()), unix.O_NOFOLLOW)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		s.names[e.Name()] = entry{node, e.IsDir()}
	}
	return s, err
}

// hold returns what names a file, and keeps that name its own. The descriptor reads and locks nothing.
func (r *Recorder) hold(path string, flags int) (device, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC|flags, 0)
	if err != nil {
		return device{}, &os.PathError{Op: "open", Path: path, Err: err}
	}
	var info unix.Stat_t
	if err := unix.Fstat(fd, &info); err != nil {
		return device{}, errors.Join(err, unix.Close(fd))
	}
	node := device{uint64(info.Dev), info.Ino} //nolint:unconvert // Dev has other types elsewhere
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.nodes[node] != nil {
		return node, unix.Close(fd)
	}
	r.nodes[node] = os.NewFile(uintptr(fd), path)
	return node, nil
}
