package verify

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// shown is how many violations of one invariant the table prints; the report has all.
const shown = 5

// Print writes the table of the invariants and the counts.
func (v Verdict) Print(out io.Writer) error {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w)
	for _, i := range v.Invariants {
		verdict := "pass"
		if len(i.Broken) > 0 {
			verdict = fmt.Sprintf("FAIL (%d)", len(i.Broken))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", i.Name, verdict, i.Text, i.Checked)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, i := range v.Invariants {
		for n, text := range i.Broken {
			if n == shown {
				fmt.Fprintf(&b, "  %s: and %d more\n", i.Name, len(i.Broken)-n)
				break
			}
			fmt.Fprintf(&b, "  %s: %s\n", i.Name, text)
		}
	}
	for _, i := range v.Invariants {
		for n, line := range i.Evidence {
			if n == 0 {
				fmt.Fprintf(&b, "\n  %s: lines of the records and logs\n", i.Name)
			}
			fmt.Fprintf(&b, "    %s\n", line)
		}
	}
	c := v.Counts
	fmt.Fprintf(&b, "\nwrites    %d asked for, %d acknowledged, %d lost with the tails of crashed epochs, %d twice; %d answers \"duplicate\", %d \"unknown outcome\"\n",
		c.Intents, c.Acknowledged, c.Lost, c.Twice, c.Duplicates, c.Unknown)
	fmt.Fprintf(&b, "refusals  %s\n", codes(c.Refused))
	fmt.Fprintf(&b, "epochs    %d grants, %d ended gracefully, %d crashed; %d snapshots counted, %d objects deleted\n", c.Grants, c.Graceful, c.Crashed, c.Snapshots, c.Deleted)
	fmt.Fprintf(&b, "faults    %d kills, %d freezes, %d processes told to hand off", c.Kills, c.Freezes, c.Handoffs)
	if v.Leases.HasServer() || v.Durable.HasServer() {
		fmt.Fprintf(&b, "; the servers of the stores: %d kills, %d stops", c.ServerKills, c.ServerStops)
	}
	fmt.Fprintln(&b)
	for _, step := range slices.Sorted(maps.Keys(c.Wire)) {
		w := c.Wire[step]
		fmt.Fprintf(&b, "          %d times %s: it hit %d connections, %d answers, %d bytes\n", w.Times, step, w.Connections, w.Answers, w.Bytes)
	}
	fmt.Fprintf(&b, "machine   %v\n", v.Slow)
	gaps := make([]string, len(v.Gaps))
	for i, g := range v.Gaps {
		gaps[i] = fmt.Sprintf("t%d %v", i+1, g.Round(time.Millisecond))
	}
	fmt.Fprintf(&b, "gaps      longest time without an acknowledgement: %s\n", strings.Join(gaps, ", "))
	_, err := io.WriteString(out, b.String())
	return err
}

func codes(counts map[string]int) string {
	var parts []string
	for _, code := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[code], code))
	}
	if parts == nil {
		return "none"
	}
	return strings.Join(parts, ", ")
}
