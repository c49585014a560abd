package daemon_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/alecthomas/kong"
	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/cmd/node/config"
	"github.com/leasehold/leasehold/cmd/node/daemon"
	"github.com/leasehold/leasehold/cmd/node/storeurl"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The first signal hands every tenant off, and Run returns.
func Example() {
	root, err := os.MkdirTemp("", "daemon-")
	check(err)
	defer func() { check(os.RemoveAll(root)) }()
	var cfg config.Config
	parser, err := kong.New(&cfg)
	check(err)
	_, err = parser.Parse([]string{"--listen=127.0.0.1:0", "--state-root=" + root, "--shutdown-linger=0s"})
	check(err)

	stdout, w := io.Pipe()
	signals := make(chan os.Signal, 2)
	over := make(chan error, 1)
	go func() {
		over <- daemon.Run(context.Background(), daemon.Options{
			Config: cfg, Schemes: storeurl.Embedded(), Stdout: w, Log: slog.New(slog.DiscardHandler), Signals: signals,
		})
	}()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	check(err)
	fmt.Println(strings.HasPrefix(line, "listening http://127.0.0.1:"))
	signals <- syscall.SIGTERM
	fmt.Println(<-over)
	// Output:
	// true
	// <nil>
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
