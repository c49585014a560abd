package powercut

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"testing"
)

// Record is Start in a test, which is skipped where ptrace is not allowed; in CI it fails then.
func Record(t testing.TB, cmd *exec.Cmd, folder string) *Recorder {
	t.Helper()
	rec, err := Start(cmd, folder)
	if errors.Is(err, fs.ErrPermission) && os.Getenv("CI") == "" {
		t.Skip("this machine does not allow ptrace")
	}
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// RecordSelf records the test's own binary, run once more with a variable in its environment that makes it another program, from its
// beginning to its end.
func RecordSelf(t testing.TB, variable, folder string) *Recorder {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), variable), os.Stderr
	rec := Record(t, cmd, folder)
	rec.Wait()
	if err := errors.Join(rec.Kill(), cmd.Process.Release()); err != nil {
		t.Fatal(err)
	}
	return rec
}
