//go:build linux

package main

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/leasehold/leasehold/drill/replica"
)

func alive(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// TestAKilledDrillTakesItsProcessesAlong: also those that are stopped, which nothing but the kernel can end, and the
// server of its leases.
func TestAKilledDrillTakesItsProcessesAlong(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "run")
	drill := exec.Command(exe, "run", "--dir", dir, "--replicas", "3", "--leases", "nats", "--break", "no-self-fence") // its schedule is one freeze
	out, err := drill.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, drill.Start())
	stopped := false
	for in := bufio.NewScanner(out); !stopped && in.Scan(); {
		stopped = strings.Contains(in.Text(), ">> STOP")
	}
	require.True(t, stopped)
	var ends []int
	pids := append(startedPIDs(t, dir), serverPIDs(t, dir)...)
	require.Len(t, pids, 4)
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		require.NoError(t, err)
		defer unix.Close(fd)
		ends = append(ends, fd)
	}
	require.Len(t, ends, len(pids))
	require.NoError(t, drill.Process.Kill())
	require.Error(t, drill.Wait())
	for _, fd := range ends {
		require.True(t, ended(t, fd, time.Minute), "a process outlives its drill")
	}
}

// serverPIDs returns the ids of the servers that run below a drill's folder.
func serverPIDs(t *testing.T, dir string) (pids []int) {
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, path := range paths {
		line, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(line), replica.ServersDir(dir)) {
			continue // it has ended meanwhile, or is another's
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		require.NoError(t, err)
		pids = append(pids, pid)
	}
	return pids
}

// ended waits for the end of a process.
func ended(t *testing.T, fd int, limit time.Duration) bool {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(limit.Milliseconds()))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		require.NoError(t, err)
		return n == 1
	}
}
