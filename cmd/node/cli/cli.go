// Package cli is the command line of a node binary. [Main] is all of main: a program with application
// code of its own calls it with that code, and has the same commands as cmd/node. [Program] is for one that
// can run a NATS server inside its nodes too.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/leasehold/leasehold/cmd/node/admin"
	"github.com/leasehold/leasehold/cmd/node/config"
	"github.com/leasehold/leasehold/cmd/node/daemon"
	"github.com/leasehold/leasehold/cmd/node/storeurl"
	"github.com/leasehold/leasehold/messages"
)

// The exit codes.
const (
	ExitOK      = 0
	ExitFailed  = 1 // a store, the disk or the network; or tenants were not handed off
	ExitUsage   = 2 // wrong arguments or configuration
	ExitRefused = 3 // somebody else holds the tenant, or the state root
	ExitCorrupt = 4 // a durable copy, or a store, is damaged
)

type commands struct {
	Run    runCommand    `cmd:"" help:"Serve tenants over HTTP."`
	Config configCommand `cmd:"" help:"Print the effective configuration, without secrets."`
	Lease  struct {
		Show    admin.LeaseShow    `cmd:"" help:"Who may serve a tenant; without KEY, all tenants."`
		History admin.LeaseHistory `cmd:"" help:"The audit trail of a tenant's lease."`
		Reseed  admin.LeaseReseed  `cmd:"" help:"Raise the records of a lease store that has lost records above what the durable store knows. All nodes stopped."`
	} `cmd:"" help:"Look into the lease store, or mend it."`
	Snapshots struct {
		List   admin.SnapshotsList   `cmd:"" help:"The durable copies of a tenant, and which of them are its lineage."`
		Verify admin.SnapshotsVerify `cmd:"" help:"Fetch every copy of a tenant and check it."`
	} `cmd:"" help:"Look into the durable store."`
	Restore admin.Restore  `cmd:"" help:"Write a verified copy of a tenant's ledger to a file. Needs no lease, changes nothing."`
	Forget  admin.Forget   `cmd:"" help:"Delete every copy of a tenant, for good. Refused while a node serves it."`
	Rebind  admin.Rebind   `cmd:"" help:"Make the durable store that of the lease store, after one of them was lost. No node may run."`
	Migrate admin.Migrate  `cmd:"" help:"Create the schema of a postgres or mysql lease store. Run it as the account that is to own it."`
	Health  admin.Health   `cmd:"" help:"Ask the node on this machine whether it is well: a health check for a container without a shell."`
	Version versionCommand `cmd:"" help:"Print the version."`
}

// Program is what a node binary is made of. All but Schemes may be left out.
type Program struct {
	App     daemon.App
	Schemes storeurl.Schemes
	// Cluster runs the NATS server inside a node; nil: nodes with nats_embedded are refused.
	Cluster daemon.Cluster
}

// Main runs the command that args name and returns the exit code, for a program without a Cluster.
func Main(args []string, app daemon.App, schemes storeurl.Schemes) int {
	return Program{App: app, Schemes: schemes}.Main(args)
}

// process is what a command runs in.
type process struct {
	Program
	args           []string
	stdout, stderr io.Writer
	signals        chan os.Signal
}

// checker is what Config.Validate takes: a nil interface where there is no Cluster.
func (p *process) checker() config.Checker {
	if p.Cluster == nil {
		return nil
	}
	return p.Cluster
}

// Main runs the command that args name and returns the exit code.
func (program Program) Main(args []string) int {
	var c commands
	env := &admin.Env{Stdout: os.Stdout, Stderr: os.Stderr, Stdin: os.Stdin, Schemes: program.Schemes}
	parser, err := newParser(&c, env)
	if err != nil {
		fmt.Fprintln(os.Stderr, "node: a bug in the command line:", err)
		return ExitFailed
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "node:", storeurl.RedactText(err.Error()))
		return ExitUsage
	}
	p := &process{Program: program, args: args, stdout: os.Stdout, stderr: os.Stderr, signals: make(chan os.Signal, 16)}
	defer signal.Stop(p.signals)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if parsed.Command() == "run" {
		defer p.serves(c.Run.Config)()
	} else {
		signal.Notify(p.signals, syscall.SIGTERM, os.Interrupt)
		go func() {
			select {
			case <-p.signals:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	parsed.BindTo(ctx, (*context.Context)(nil))
	if err := parsed.Run(p); err != nil {
		report(p.stderr, err, env.JSON)
		return exitCode(err)
	}
	return ExitOK
}

func newParser(c *commands, env *admin.Env) (*kong.Kong, error) {
	return kong.New(c,
		kong.Bind(env),
		kong.Name("node"),
		kong.Description("Leasehold: every tenant's SQLite ledger, owned by exactly one node.\n\nExit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 refused (held), 4 corrupt."),
		kong.DefaultEnvars(config.EnvPrefix),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110}),
		kong.UsageOnError(),
	)
}

// report prints an error, line by line where several are joined.
func report(w io.Writer, err error, asJSON bool) {
	if asJSON {
		if document, jerr := json.Marshal(messages.AsError(err)); jerr == nil {
			fmt.Fprintln(w, string(document))
			return
		}
	}
	fmt.Fprintln(w, "node:", err)
}

func exitCode(err error) int {
	switch messages.CodeOf(err) {
	case messages.CodeInvalidID, messages.CodeInvalidArgument, messages.CodeOutOfRange, messages.CodeDeploymentMismatch:
		return ExitUsage
	case messages.CodeHeld, messages.CodeLost, messages.CodeFenced, messages.CodeDraining:
		return ExitRefused
	case messages.CodeCorrupt, messages.CodeLineageAhead, messages.CodeLineageMissing:
		return ExitCorrupt
	}
	return ExitFailed
}

type configCommand struct {
	config.Config `embed:""`
	JSON          bool `name:"json" help:"Print JSON." env:"-"`
}

// Run prints the configuration, if it is valid.
func (c *configCommand) Run(p *process) error {
	if err := c.Validate(p.Schemes, p.checker()); err != nil {
		return err
	}
	return c.Print(os.Stdout, c.JSON)
}

type versionCommand struct {
	JSON bool `name:"json" help:"Print JSON." env:"-"`
}

// version is what the Go toolchain has recorded in the binary.
type version struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
}

// Run prints the version.
func (c *versionCommand) Run() error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return errors.New("the binary carries no build information")
	}
	v := version{Version: info.Main.Version, Go: info.GoVersion}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	if c.JSON {
		return json.NewEncoder(os.Stdout).Encode(v)
	}
	_, err := fmt.Println("leasehold", v.Version, v.Revision, v.Go)
	return err
}
