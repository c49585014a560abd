package servers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// launch starts the server's process. It dies with the thread that started it, which therefore waits for
// it: a test that is killed leaves no server behind.
func (s *Server) launch() error {
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	cmd := exec.Command(s.argv[0], s.argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: s.as}
	started, exited := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer log.Close()
		defer close(exited)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // killed, or ended by itself: the log says more
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	s.cmd, s.exited = cmd, exited
	return nil
}

// ended reports whether a process is gone, or is one that nobody has waited for yet: it holds nothing any more. The
// first process of a container, which inherits what a killed server leaves, may take its time, or never do it.
func ended(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	text := string(data)
	return strings.HasPrefix(text[strings.LastIndexByte(text, ')')+1:], " Z")
}

// descendants returns the processes that pid has started, and those that they have.
func descendants(pid int) []int {
	children := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended meanwhile
		}
		// "pid (name) state ppid …"; the name may hold anything.
		text := string(data)
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
		if err != nil || len(fields) < 2 {
			continue
		}
		if parent, err := strconv.Atoi(fields[1]); err == nil {
			children[parent] = append(children[parent], child)
		}
	}
	var all []int
	for next := children[pid]; len(next) > 0; next = next[1:] {
		all = append(all, next[0])
		next = append(next[:len(next):len(next)], children[next[0]]...)
	}
	return all
}
