package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/leasehold/leasehold/cmd/node/storeurl"
	"github.com/leasehold/leasehold/internal/localfile"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/snapshotactor"
)

// SnapshotsList prints the durable copies of a tenant.
type SnapshotsList struct {
	Common `embed:""`
	Key    string `arg:"" help:"ORG/TENANT."`
}

// Run implements the command. A lineage that cannot be followed to its end is CodeCorrupt, after
// everything was printed. CodeNotFound: the tenant was never opened.
func (c *SnapshotsList) Run(ctx context.Context, env *Env) error {
	key, err := messages.ParseKey(c.Key)
	if err != nil {
		return err
	}
	return c.both(ctx, env, func(leases storeurl.LeaseStore, durable storeurl.DurableStore) error {
		lease, err := known(ctx, leases, key)
		if err != nil {
			return err
		}
		report, err := snapshotactor.Lineage(ctx, durable, key, lease.Floor)
		if err != nil {
			return err
		}
		if err := c.print(env, report, func(w io.Writer) { lineageTable(w, report) }); err != nil {
			return err
		}
		if report.Problem != "" {
			return &messages.Error{Code: messages.CodeCorrupt, Key: key.String(), Message: "the lineage cannot be followed: " + report.Problem}
		}
		return nil
	})
}

func lineageTable(w io.Writer, report snapshotactor.Report) {
	fmt.Fprintln(w, "SNAPSHOT\tLINEAGE\tBYTES\tEVENTS\tLAST SEQ\tTIME\tNOTE")
	for _, e := range report.Epochs {
		line := func(name string, live bool, rest string) {
			mark := "-"
			if live {
				mark = "live"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\n", name, mark, rest)
		}
		epoch := fmt.Sprintf("e%d/base", e.Epoch)
		switch {
		case e.Sealed:
			line(epoch, e.Live, "\t\t\t\tsealed")
		case e.Base != nil:
			line(epoch, e.Live, "\t\t\t\tbegins with "+e.Base.From.String())
		}
		for _, s := range e.Snapshots {
			at := messages.Position{Epoch: e.Epoch, Snapshot: s.Snapshot}
			switch m := s.Manifest; {
			case m != nil && s.Image:
				line(at.String(), s.Live, fmt.Sprintf("%d\t%d\t%d\t%s\t", m.Size, m.Events, m.LastSeq, stamp(m.Time)))
			case m != nil:
				line(at.String(), s.Live, fmt.Sprintf("%d\t%d\t%d\t%s\timage is gone", m.Size, m.Events, m.LastSeq, stamp(m.Time)))
			case s.Sealed:
				line(at.String(), s.Live, "\t\t\t\tsealed")
			default:
				line(at.String(), s.Live, "\t\t\t\tno manifest")
			}
		}
		for _, problem := range e.Problems {
			line(epoch, e.Live, "\t\t\t\t"+problem)
		}
	}
	for _, stray := range report.Strays {
		fmt.Fprintf(w, "%s\t-\t\t\t\t\tno object of a lineage\n", stray)
	}
	fmt.Fprintf(w, "next owner begins with %s\n", report.Newest)
}

// SnapshotsVerify fetches and checks every copy of a tenant.
type SnapshotsVerify struct {
	Common  `embed:""`
	Key     string `arg:"" help:"ORG/TENANT."`
	TempDir string `help:"Folder for one image at a time; default: the system's." placeholder:"DIR" env:"-"`
}

// verified is what a verification found.
type verified struct {
	Key      messages.Key            `json:"key"`
	Bytes    int64                   `json:"bytes"` // of images
	Findings []snapshotactor.Finding `json:"findings"`
}

// Run implements the command. With findings it prints them and returns CodeCorrupt.
func (c *SnapshotsVerify) Run(ctx context.Context, env *Env) (err error) {
	key, err := messages.ParseKey(c.Key)
	if err != nil {
		return err
	}
	durable, err := c.durable(ctx, env)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, durable.Close()) }()
	temp, err := os.MkdirTemp(c.TempDir, "leasehold-verify-")
	if err != nil {
		return &messages.Error{Code: messages.CodeStorage, Message: localfile.Because("create a temporary folder", err), Err: err}
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	out := verified{Key: key, Findings: []snapshotactor.Finding{}}
	bar := c.bar(env, "verifying", bytesUnit)
	findings, err := snapshotactor.VerifyAll(ctx, durable, key, verifier{}, temp, func(done, total int64) {
		out.Bytes = done
		bar.set(done, total)
	})
	bar.finish()
	out.Findings = append(out.Findings, findings...)
	if printErr := c.print(env, out, func(w io.Writer) { out.table(w) }); err != nil || printErr != nil {
		return errors.Join(err, printErr)
	}
	if len(findings) > 0 {
		return &messages.Error{Code: messages.CodeCorrupt, Key: key.String(), Object: findings[0].Object, Message: fmt.Sprintf("%d objects failed their verification", len(findings))}
	}
	return nil
}

func (v verified) table(w io.Writer) {
	for _, f := range v.Findings {
		where := "outside the lineage"
		if f.Live {
			where = "in the lineage"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", f.Object, where, f.Err.Message)
	}
	fmt.Fprintf(w, "%d bytes of images checked, %d objects failed\n", v.Bytes, len(v.Findings))
}
