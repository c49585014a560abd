package main_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// saved is the lifecycle of one tenant: an event that no snapshot holds yet is there after the node's end, at the next epoch.
func saved(t *testing.T, root string, kinds ...string) {
	t.Helper()
	again := run(t, root)
	require.Equal(t, kinds, again.kinds(tenantOne))
	again.terminate()
}

// Q6: whichever signal ends a node, and however often it comes, every tenant is handed off before.
func TestQ6_ASignalThatEndsANodeHandsItsTenantsOff(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGABRT} {
		t.Run(unix.SignalName(sig), func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			p := run(t, root, "--snapshot-every=1h", "--shutdown-linger=300ms")
			require.Equal(t, 200, p.post(path(tenantOne)+"/events", `{"kind":"unsaved"}`).status)
			for range 3 { // whoever is impatient loses nothing
				p.signal(sig)
				until(t, "it stops", func() bool { return strings.Contains(p.stderr.String(), "shutting down") })
			}
			require.Equal(t, 0, p.wait(), p.stderr)
			stacks := sig == syscall.SIGQUIT || sig == syscall.SIGABRT
			require.Equal(t, stacks, strings.Contains(p.stderr.String(), "the stacks of all goroutines"))
			saved(t, root, "unsaved")
		})
	}
}

// Q6: every other signal leaves a node as it is, but for SIGKILL; SIGSTOP and SIGTSTP, which suspend it; and those by
// which the kernel says that the process is broken.
func TestQ6_EveryOtherSignalLeavesANodeRunning(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	p := run(t, root, "--snapshot-every=1h")
	require.Equal(t, 200, p.post(path(tenantOne)+"/events", `{"kind":"unsaved"}`).status)
	never := map[syscall.Signal]bool{
		syscall.SIGTERM: true, syscall.SIGINT: true, syscall.SIGQUIT: true, syscall.SIGABRT: true, // they end it
		syscall.SIGKILL: true, syscall.SIGSTOP: true, syscall.SIGTSTP: true,
		syscall.SIGSEGV: true, syscall.SIGBUS: true, syscall.SIGFPE: true, syscall.SIGILL: true, syscall.SIGTRAP: true, syscall.SIGSYS: true,
		syscall.SIGSTKFLT: true,
	}
	const last = 64 // of Linux's signals for real time
	sent := 0
	for sig := syscall.Signal(1); sig <= last; sig++ {
		if never[sig] || (sig >= 32 && sig <= 34) { // those that C libraries keep for themselves, and Go leaves alone
			continue
		}
		p.signal(sig)
		sent++
		require.Equal(t, 200, p.get("/healthz").status, "after %d %v; stderr: %s", sig, sig, p.stderr)
	}
	require.Greater(t, sent, 40)
	p.terminate()
	saved(t, root, "unsaved")
}

// small returns a pipe with room for 4 KiB.
func small(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	_, err = unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 4096)
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = r.Close(), w.Close() }) // they may be closed already
	return r, w
}

// Q6: a log that nobody reads any more, that nobody reads fast enough, or that has no room costs the log.
func TestQ6_ALogThatNobodyReadsCostsTheLog(t *testing.T) {
	for name, stderr := range map[string]func(t *testing.T) (w, closed *os.File){
		"its reader is gone":       func(t *testing.T) (w, closed *os.File) { r, w := small(t); return w, r },
		"its reader does not read": func(t *testing.T) (w, closed *os.File) { _, w = small(t); return w, nil },
		"its disk is full": func(t *testing.T) (w, closed *os.File) {
			w, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
			require.NoError(t, err)
			t.Cleanup(func() { _ = w.Close() }) // nothing was kept in it
			return w, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			cmd := command(t, "run", "--listen=127.0.0.1:0", "--state-root="+root, "--snapshot-every=1h", "--log-level=debug")
			w, closed := stderr(t)
			cmd.Stderr = w
			p := start(t, cmd)
			if closed != nil {
				require.NoError(t, closed.Close())
			}
			kinds := make([]string, 0, 30)
			for n := range cap(kinds) { // more lines than 4 KiB hold
				kinds = append(kinds, fmt.Sprintf("unsaved-%d", n))
				r := p.post(path(tenantOne)+"/events", `{"kind":"`+kinds[n]+`"}`)
				require.Equal(t, 200, r.status, "%s %v", r.body, r.err)
				p.signal(syscall.SIGHUP)
				require.Equal(t, 200, p.post(path(number(n))+"/events", `{"kind":"k"}`).status)
				require.Equal(t, 204, p.post(path(number(n))+"/forget", "").status)
			}
			p.terminate()
			saved(t, root, kinds...)
		})
	}
}

// SIGHUP reads tokens and the log's level again: what is not there any more does not let anybody in.
func TestRun_SIGHUPReadsTokensAndTheLogLevelAgain(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	tokens, settings := filepath.Join(folder, "tokens"), filepath.Join(folder, "node.yaml")
	write := func(file, text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	old, next := strings.Repeat("o", 32), strings.Repeat("n", 32)
	write(tokens, old)
	write(settings, "log_level: info\nretain: 1\n")
	p := run(t, t.TempDir(), "--config="+settings, "--token-file="+tokens)
	status := func(token string) int { return p.authorized(token, "/v1/tenants") }
	require.Equal(t, []int{200, 401}, []int{status(old), status(next)})

	// By change: at once, without a signal.
	write(tokens+".new", next)
	require.NoError(t, os.Rename(tokens+".new", tokens))
	require.Equal(t, []int{401, 200}, []int{status(old), status(next)})
	// What cannot be used leaves what is there, and is said.
	write(tokens, "short")
	require.Equal(t, []int{401, 200}, []int{status(old), status(next)})
	require.Contains(t, p.stderr.String(), "the new tokens cannot be used")
	require.NotContains(t, p.stderr.String(), next)

	// By signal, with the level of the log; what needs a restart is named.
	write(tokens, old)
	write(settings, "log_level: warn\nretain: 2\n")
	p.signal(syscall.SIGHUP)
	until(t, "the settings are read", func() bool { return strings.Contains(p.stderr.String(), "need a restart") })
	require.Regexp(t, `need a restart" settings=\[retain\]`, p.stderr)
	require.Equal(t, []int{200, 401}, []int{status(old), status(next)})
	p.terminate()
	require.NotContains(t, p.stderr.String(), "shutting down", "the level is warn")
}

// A node whose output goes to a pager that was closed, as `node run | head`, goes on.
func TestQ6_StdoutThatNobodyReads(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	r, w := small(t)
	_, err := w.Write(make([]byte, 4096)) // full, before the node says where it listens
	require.NoError(t, err)
	cmd := command(t, "run", "--listen=127.0.0.1:0", "--state-root="+root, "--snapshot-every=1h")
	errs, errsW, err := os.Pipe()
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = w, errsW
	require.NoError(t, cmd.Start())
	require.NoError(t, errsW.Close())
	log := make([]byte, 0, 4096)
	for !strings.Contains(string(log), "msg=listening") {
		n, err := errs.Read(log[len(log):cap(log)])
		require.NoError(t, err, "it ended: %s", log)
		log = log[:len(log)+n]
	}
	go func() { _, _ = io.Copy(io.Discard, errs) }() // until it ends
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait(), "%s", log)
	require.NoError(t, r.Close())
}
