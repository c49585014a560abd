package docs

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// curlEnv makes the test binary a small curl, for machines that have none.
const curlEnv = "LEASEHOLD_DOCS_CURL"

func TestMain(m *testing.M) {
	for env, program := range map[string]func([]string) error{curlEnv: curl, pkillEnv: pkill} {
		if os.Getenv(env) == "" {
			continue
		}
		if err := program(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(func() int {
		var err error
		if binFolder, err = os.MkdirTemp("", "leasehold-docs-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(binFolder) }()
		code := m.Run()
		http.DefaultClient.CloseIdleConnections()
		if err := goleak.Find(); err != nil && code == 0 {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		return code
	}())
}

// pretend returns a folder with a program that is this test binary, with an environment variable that says which it is.
func pretend(t *testing.T, name, env string) string {
	t.Helper()
	folder := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	script := fmt.Sprintf("#!/bin/sh\nGORACE=atexit_sleep_ms=0 %s=1 exec '%s' \"$@\"\n", env, self)
	require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(script), 0o700))
	return folder
}

// curls returns folders with a program named curl: ours, and the real one if there is one.
func curls(t *testing.T) []string {
	t.Helper()
	folders := []string{pretend(t, "curl", curlEnv)}
	if real, err := exec.LookPath("curl"); err == nil {
		folders = append(folders, filepath.Dir(real))
	}
	return folders
}

// curl knows what the documents use: -s, --json BODY and a URL.
func curl(args []string) error {
	var url, body string
	for len(args) > 0 {
		switch arg := args[0]; {
		case arg == "-s":
		case arg == "--json" && len(args) > 1:
			body, args = args[1], args[1:]
		case strings.HasPrefix(arg, "http://") && url == "":
			url = arg
		default:
			return fmt.Errorf("curl: %q is not known here", arg)
		}
		args = args[1:]
	}
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	_, err = io.Copy(os.Stdout, resp.Body)
	return err
}

// pkillEnv makes the test binary a pkill that knows only the processes in pkillOf, as lines of a pid and what a terminal was
// given: the pattern of a document must not meet anybody else's process.
const (
	pkillEnv = "LEASEHOLD_DOCS_PKILL"
	pkillOf  = "LEASEHOLD_DOCS_PIDS"
)

func pkillable(nodes []*process) string {
	var out strings.Builder
	for _, n := range nodes {
		fmt.Fprintf(&out, "%d %s\n", n.cmd.Process.Pid, n.line)
	}
	return pkillOf + "=" + out.String()
}

// pkill knows what the documents use: -9 -u UID -f PATTERN, of the reader's own processes only. The pattern must match what exactly
// one terminal was given.
func pkill(args []string) error {
	if len(args) != 5 || args[0] != "-9" || args[1] != "-u" || args[2] != strconv.Itoa(os.Getuid()) || args[3] != "-f" {
		return fmt.Errorf("pkill: %q is not known here", args)
	}
	pattern, err := regexp.Compile(args[4])
	if err != nil {
		return err
	}
	var found []string
	for line := range strings.Lines(os.Getenv(pkillOf)) {
		if pid, command, _ := strings.Cut(line, " "); pattern.MatchString(command) {
			found = append(found, pid)
		}
	}
	if len(found) != 1 {
		return fmt.Errorf("pkill: %q matches %d of the processes", args[2], len(found))
	}
	pid, err := strconv.Atoi(found[0])
	if err != nil {
		return err
	}
	return syscall.Kill(pid, syscall.SIGKILL)
}
