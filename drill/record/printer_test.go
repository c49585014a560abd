package record_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/drill/record"
)

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("nobody listens") }

func TestPrinter(t *testing.T) {
	var out strings.Builder
	record.Printer(&out, time.Now())("%s e%d", "t1", 7)
	require.Regexp(t, `^ +0\.\d{3}s t1 e7\n$`, out.String())
	record.Printer(nil, time.Now())("nobody")
	record.Printer(brokenPipe{}, time.Now())("nobody")
}

func TestCheckFolder(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, record.CheckFolder(dir))
	require.NoError(t, record.CheckFolder(filepath.Join(dir, "none")))
	file := filepath.Join(dir, "r1.1.jsonl")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.ErrorContains(t, record.CheckFolder(dir), "not empty")
	require.Error(t, record.CheckFolder(file))
}
