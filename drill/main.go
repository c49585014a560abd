package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/leasehold/leasehold/drill/cluster"
	"github.com/leasehold/leasehold/drill/engine"
	"github.com/leasehold/leasehold/drill/replica"
	"github.com/leasehold/leasehold/drill/run"
	"github.com/leasehold/leasehold/drill/slow"
	"github.com/leasehold/leasehold/drill/verify"
)

// Exit codes.
const (
	exitOK    = 0
	exitFail  = 1
	exitUsage = 2
	exitSlow  = 3
)

// errBroken says that an invariant did not hold; what there is to say was printed.
var errBroken = errors.New("an invariant is broken")

// usageError is a command line that cannot work.
type usageError struct{ error }

type commands struct {
	Run     runCommand     `cmd:"" help:"Start replicas, hurt them, and judge what happened."`
	Verify  verifyCommand  `cmd:"" help:"Judge a finished run again, from its files alone."`
	Replica replicaCommand `cmd:"" hidden:"" help:"One process of a drill."`
	Cluster clusterCommand `cmd:"" help:"Start nodes as members of a cluster, with an app client, and restart, add, remove, kill and freeze them."`
	Server  serverCommand  `cmd:"" hidden:"" help:"The server of a store of a drill."`
}

// console is where the commands print.
type console struct{ out io.Writer }

func main() {
	// A second signal ends the process at once; the replicas end with it.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	signal.Ignore(syscall.SIGPIPE) // a pager that was closed must not leave a folder behind
	if len(os.Args) > 1 && os.Args[1] == "node" {
		stop()
		os.Exit(asNode(os.Args[2:]))
	}
	if len(os.Args) > 1 && (os.Args[1] == "replica" || os.Args[1] == "server") {
		stop() // a replica handles SIGTERM itself; a server ends with its drill
		ctx = context.Background()
	}
	os.Exit(execute(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// execute runs a command line and returns the exit code.
func execute(ctx context.Context, args []string, out, failed io.Writer) int {
	var c commands
	code := -1
	parser, err := kong.New(&c, kong.Name("drill"), kong.Description("The fault-injection drill: real processes, real signals."),
		kong.Writers(out, failed), kong.Exit(func(n int) { code = n }), kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(&console{out}),
		kong.Vars{"breaks": strings.Join(run.BreakNames(), ", "), "steps": strings.Join(run.StepNames(), ", "),
			"clustersteps": cluster.StepNames(), "leases": engine.Names(engine.LeaseKinds), "durable": engine.Names(engine.DurableKinds)})
	if err != nil {
		fmt.Fprintln(failed, "drill:", err)
		return exitFail
	}
	parsed, err := parser.Parse(args)
	if code >= 0 { // --help
		return code
	}
	if err != nil {
		fmt.Fprintln(failed, "drill:", err)
		return exitUsage
	}
	err = parsed.Run()
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errBroken):
		return exitFail
	case errors.Is(err, slow.ErrTooSlow):
		fmt.Fprintln(failed, "drill:", err)
		return exitSlow
	case ctx.Err() != nil:
		fmt.Fprintln(failed, "drill: interrupted; no process was left behind")
		return exitFail
	case errors.As(err, &usage):
		fmt.Fprintln(failed, "drill:", err)
		return exitUsage
	}
	fmt.Fprintln(failed, "drill:", err)
	return exitFail
}

type runCommand struct {
	Replicas int            `default:"4" help:"Processes."`
	Tenants  int            `default:"2" help:"Tenants that they contend for."`
	Writers  int            `default:"4" help:"Concurrent writers of each tenant."`
	Pace     time.Duration  `default:"30ms" help:"Pause between two writes of a writer."`
	Duration *time.Duration `help:"What the schedule is meant to take; the steps decide. Default: 18s, and 40s with a server."`
	Seed     uint64         `default:"1" help:"Makes the schedule repeatable."`
	Leases   string         `default:"sqlite" help:"Where the leases are: ${leases}. The drill starts a server of its own."`
	Durable  string         `default:"dir" help:"Where the durable copies are: ${durable}."`
	Dir      string         `help:"Folder of the run, which must be empty; it is kept. Default: a temporary one."`
	Keep     bool           `help:"Keep the temporary folder, and say where it is."`
	Report   string         `help:"Write the verdict as JSON into this file."`
	Break    []string       `help:"Switch a broken part in, which must be found; 'all' tries each in turn. Known: ${breaks}." sep:","`
	Steps    []string       `help:"Restrict the schedule to these steps: ${steps}." sep:","`
	Quiet    bool           `help:"Print the tables only."`
}

func (c *runCommand) Run(ctx context.Context, to *console) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	opts := run.Options{Replicas: c.Replicas, Tenants: c.Tenants, Writers: c.Writers, Pace: c.Pace,
		Seed: c.Seed, Leases: engine.Kind(c.Leases), Durable: engine.Kind(c.Durable),
		Exe: []string{exe, "replica"}, Server: []string{exe, "server"}, Out: to.out}
	opts.Duration = run.DefaultDuration(opts.HasServer())
	if c.Duration != nil {
		opts.Duration = *c.Duration
	}
	if c.Quiet {
		opts.Out = nil
	}
	for _, s := range c.Steps {
		opts.Only = append(opts.Only, run.Step(s))
	}
	switch len(c.Break) {
	case 0:
	case 1:
		opts.Break = c.Break[0]
	default:
		return c.each(ctx, opts, c.Break, to.out)
	}
	if opts.Break == "all" {
		return c.each(ctx, opts, run.BreakNames(), to.out)
	}
	verdict, err := c.once(ctx, opts, c.Dir, to.out)
	if err != nil {
		return err
	}
	if err := verdict.Print(to.out); err != nil {
		return err
	}
	if c.Report != "" {
		if err := writeJSON(c.Report, verdict); err != nil {
			return err
		}
	}
	outcome, err := outcomeOf(verdict)
	fmt.Fprintf(to.out, "\nseed %d, %.1f s: %s\n", opts.Seed, verdict.Took.Seconds(), outcome)
	return err
}

// outcomeOf says in one line what a run has shown, and returns the error that stands for it.
func outcomeOf(v verify.Verdict) (string, error) {
	switch {
	case v.Break != "" && v.TooSlow && !run.IsFound(v), v.Break == "" && v.CouldNotJudge():
		return fmt.Sprintf("%v (%v)", slow.ErrTooSlow, v.Slow), slow.ErrTooSlow
	case v.Break != "" && v.OK:
		return run.Finding(v), nil
	case v.Break != "":
		return run.Finding(v), errBroken
	case v.OK:
		return pass(true), nil
	}
	return pass(false), errBroken
}

// once does one run in a folder; "" is a temporary one.
func (c *runCommand) once(ctx context.Context, opts run.Options, dir string, out io.Writer) (verdict verify.Verdict, err error) {
	opts.Dir = dir
	if dir == "" {
		if opts.Dir, err = os.MkdirTemp("", "leasehold-drill-"); err != nil {
			return verify.Verdict{}, err
		}
		if c.Keep {
			defer func() { fmt.Fprintln(out, "the run is in", opts.Dir) }()
		} else {
			defer func() { err = errors.Join(err, os.RemoveAll(opts.Dir)) }()
		}
	}
	if err := opts.Validate(); err != nil {
		return verify.Verdict{}, usageError{err}
	}
	return run.Run(ctx, opts)
}

func pass(ok bool) string {
	if ok {
		return "every invariant holds"
	}
	return "an invariant is BROKEN"
}

type verifyCommand struct {
	Dir    string `arg:"" type:"existingdir" help:"Folder of a run (run --dir, or --keep)."`
	Report string `help:"Write the verdict as JSON into this file."`
}

func (c *verifyCommand) Run(ctx context.Context, to *console) error {
	verdict, err := verify.Judge(ctx, c.Dir)
	if err != nil {
		return err
	}
	if c.Report != "" {
		if err := writeJSON(c.Report, verdict); err != nil {
			return err
		}
	}
	if err := verdict.Print(to.out); err != nil {
		return err
	}
	if !verdict.OK {
		return errBroken
	}
	return nil
}

type replicaCommand struct {
	Config string `arg:"" help:"JSON."`
}

func (c *replicaCommand) Run(ctx context.Context) error {
	cfg, err := replica.Parse(c.Config)
	if err != nil {
		return usageError{err}
	}
	return replica.Run(ctx, cfg, os.Stdin)
}

type serverCommand struct {
	Kind    string `arg:"" help:"nats or s3."`
	Folder  string `arg:"" help:"Where it keeps its data."`
	Address string `arg:"" help:"HOST:PORT."`
}

func (c *serverCommand) Run(ctx context.Context, to *console) error {
	return engine.Serve(ctx, engine.Kind(c.Kind), c.Folder, c.Address, os.Stdin, to.out)
}

func writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}
