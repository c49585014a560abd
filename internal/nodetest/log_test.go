package nodetest_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/nodetest"
)

func Example() {
	var log nodetest.Log
	slog.New(slog.NewTextHandler(&log, nil)).Info("listening")
	fmt.Println(strings.Contains(log.String(), "msg=listening"))
	// Output: true
}

func TestLogIsReadWhileItIsWritten(t *testing.T) {
	var log nodetest.Log
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			for range 100 {
				_, _ = log.Write([]byte("line\n")) // it never fails
				_ = log.String()
			}
		})
	}
	writers.Wait()
	require.Equal(t, strings.Repeat("line\n", 800), log.String())
}
