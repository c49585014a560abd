package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/leasehold/leasehold/drill/run"
	"github.com/leasehold/leasehold/drill/slow"
	"github.com/leasehold/leasehold/drill/verify"
)

// each does one run for each broken part, and fails unless every one was found.
func (c *runCommand) each(ctx context.Context, opts run.Options, names []string, out io.Writer) error {
	type row struct {
		name    string
		verdict verify.Verdict
	}
	var rows []row
	for _, name := range names {
		opts.Break = name
		dir := c.Dir
		if dir != "" {
			dir = filepath.Join(dir, name)
		}
		verdict, err := c.once(ctx, opts, dir, out)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Fprintln(out, run.Finding(verdict))
		rows = append(rows, row{name, verdict})
	}
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "BROKEN PART\tFOUND BY\tSECONDS\tFIRST FINDING")
	missed, tooSlow := false, false
	var verdicts []verify.Verdict
	for _, r := range rows {
		by, first := "NOT FOUND", ""
		if run.IsFound(r.verdict) {
			by = strings.Join(r.verdict.Found(), ", ")
			first = run.FirstFinding(r.verdict)
		} else if r.verdict.TooSlow {
			by, tooSlow = "could not judge: "+r.verdict.Slow.String(), true
		} else {
			missed = true
		}
		fmt.Fprintf(w, "%s\t%s\t%.1f\t%s\n", r.name, by, r.verdict.Took.Seconds(), first)
		verdicts = append(verdicts, r.verdict)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if c.Report != "" {
		if err := writeJSON(c.Report, verdicts); err != nil {
			return err
		}
	}
	switch {
	case missed:
		return errBroken
	case tooSlow:
		return slow.ErrTooSlow
	}
	return nil
}
