// Command jsonload appends a file of events, one JSON object a line, to a tenant's ledger: to a node
// over HTTP, or to a node that it embeds.
//
//	jsonload --org acme --tenant t-3129611eac9be1d5994a2b216b06ed27 events.jsonl
//	jsonload --org acme --tenant t-3129611eac9be1d5994a2b216b06ed27 --state-root ./data events.jsonl
//
// A line has the fields of messages.Event: {"kind": "trip.logged", "payload": {"km": 12}}. A line
// without an idem_key gets one from its place in the file and its content, so that a load which was
// interrupted is done again without appending anything twice. Lines that are no events are reported
// with their numbers and skipped. It ends with a snapshot: then everything is in the durable store.
//
// The exit code is 0 if every line was loaded, 1 if some were bad, 2 if the load failed.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/messages"
)

type options struct {
	File      string        `arg:"" help:"File of events, one JSON object a line."`
	Org       string        `required:"" help:"Organization."`
	Tenant    string        `required:"" help:"Tenant id."`
	URL       string        `default:"http://127.0.0.1:7070" help:"Node to load into."`
	TokenFile string        `help:"File whose first line is the bearer token."`
	StateRoot string        `help:"Load into a node that is started here, on this folder, instead of over HTTP."`
	Source    string        `help:"Name of the file in idempotency keys; default: its base name. Keep it when the file moves."`
	Batch     int           `default:"500" help:"Events in one append (1 to 1000)."`
	Patience  time.Duration `default:"1m" help:"How long to go on while the node is away."`
	Quiet     bool          `help:"No progress bar."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	fail := func(err error) int {
		fmt.Fprintln(stderr, "jsonload:", err)
		return 2
	}
	var o options
	exited := -1 // by --help
	parser, err := kong.New(&o, kong.Name("jsonload"), kong.Description("Append a file of events to a tenant's ledger."),
		kong.Writers(stdout, stderr), kong.Exit(func(code int) { exited = code }))
	if err != nil {
		return fail(err)
	}
	switch _, err := parser.Parse(args); {
	case exited >= 0:
		return exited
	case err != nil:
		return fail(err)
	case o.Batch < 1 || o.Batch > messages.MaxBatchEvents:
		return fail(fmt.Errorf("--batch must be from 1 to %d", messages.MaxBatchEvents))
	}
	sum, err := load(ctx, o, stderr)
	fmt.Fprintf(stdout, "%d events, of which %d were there already; %d bad lines\n", sum.Events, sum.There, sum.Bad)
	switch {
	case err != nil:
		return fail(err)
	case sum.Bad > 0:
		return 1
	}
	return 0
}

func load(ctx context.Context, o options, stderr io.Writer) (sum Summary, err error) {
	key, err := messages.NewKey(messages.OrgID(o.Org), messages.TenantID(o.Tenant))
	if err != nil {
		return sum, err
	}
	info, err := os.Stat(o.File)
	if err != nil {
		return sum, err
	}
	if o.Source == "" {
		o.Source = filepath.Base(o.File)
	}
	ledger, closeLedger, err := o.ledger(ctx, key)
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, closeLedger()) }()
	bar := progressbar.NewOptions64(info.Size(), progressbar.OptionSetWriter(stderr), progressbar.OptionShowBytes(true),
		progressbar.OptionSetDescription(filepath.Base(o.File)), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(), progressbar.OptionSetVisibility(!o.Quiet && isTerminal(stderr)))
	l := Loader{
		Ledger: ledger, Batch: o.Batch, Patience: o.Patience,
		Bad: func(number int, why string) { fmt.Fprintf(stderr, "%s:%d: %s\n", o.File, number, why) },
		// What a terminal does not take is no reason to stop.
		Progress: func(bytes int64) { _ = bar.Set64(bytes) },
	}
	sum, err = l.Load(ctx, o.Source, func() (io.ReadCloser, error) { return os.Open(o.File) })
	return sum, errors.Join(err, bar.Exit())
}

// ledger opens the tenant in a node of our own, or names it on another one.
func (o options) ledger(ctx context.Context, key messages.Key) (Ledger, func() error, error) {
	if o.StateRoot == "" {
		c := Client{HTTP: http.DefaultClient, Base: strings.TrimSuffix(o.URL, "/"), Key: key}
		if o.TokenFile != "" {
			text, err := os.ReadFile(o.TokenFile)
			if err != nil {
				return nil, nil, err
			}
			first, _, _ := strings.Cut(string(text), "\n")
			c.Token = strings.TrimSpace(first)
		}
		return c, func() error { http.DefaultClient.CloseIdleConnections(); return nil }, nil
	}
	node, err := actors.Start(ctx, actors.Config{StateRoot: o.StateRoot, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, nil, err
	}
	// The handoff goes on when a signal has ended ctx: it is what saves the work.
	shutdown := func() error { return node.Shutdown(context.WithoutCancel(ctx)) }
	tenant, err := node.Tenant(ctx, key.Org, key.Tenant)
	if err != nil {
		return nil, nil, errors.Join(err, shutdown())
	}
	return tenant, shutdown, nil
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
