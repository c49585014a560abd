package cluster

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/leasehold/leasehold/drill/slow"
	"github.com/leasehold/leasehold/messages"
)

// Figure is what one step, or one check of the whole run, came to.
type Figure struct {
	Name string `json:"name"`
	// Took is how long the step took; 0: it is a check.
	Took time.Duration `json:"took_ns,omitempty"`
	// Begun is when the step began.
	Begun time.Time `json:"begun,omitzero"`
	// Asked and Failed count the requests that were sent in the step.
	Asked  int `json:"asked"`
	Failed int `json:"failed"`
	// Longest is the longest time that any tenant did not answer: from a request to its acknowledgement.
	Longest time.Duration `json:"longest_ns"`
	// Half is the median over the tenants of their longest.
	Half time.Duration `json:"half_ns"`
	// Handovers counts the tenants that were handed over; Without is the longest time between
	// the beginning of a drain and service by the next owner, by the nodes' logs, and WithoutHalf the median.
	Handovers   int           `json:"handovers"`
	Without     time.Duration `json:"without_ns"`
	WithoutHalf time.Duration `json:"without_half_ns"`
	// Texts say more.
	Texts []string `json:"texts,omitempty"`
	// Broken says what should not have been.
	Broken []string `json:"broken,omitempty"`
	// Evidence are lines of the nodes' logs about that.
	Evidence []string `json:"evidence,omitempty"`
}

func (f *Figure) say(format string, args ...any) {
	f.Texts = append(f.Texts, fmt.Sprintf(format, args...))
}
func (f *Figure) break_(format string, args ...any) {
	f.Broken = append(f.Broken, fmt.Sprintf(format, args...))
}

// count fills in what was asked.
func (f *Figure) count(all []asked) {
	longest := map[int]time.Duration{}
	failures := map[messages.Code]int{}
	for _, a := range all {
		f.Asked++
		if a.err != nil {
			f.Failed++
			failures[a.code]++
			if f.Failed == 1 {
				f.say("the first failure, tenant %d: %v", a.tenant, a.err)
			}
		}
		longest[a.tenant] = max(longest[a.tenant], a.took())
	}
	for code, n := range failures {
		f.say("%d times %s", n, code)
	}
	var each []time.Duration
	for _, d := range longest {
		each = append(each, d)
	}
	slices.Sort(each)
	if len(each) > 0 {
		f.Longest, f.Half = each[len(each)-1], each[len(each)/2]
	}
}

// Verdict is what a run came to.
type Verdict struct {
	Steps  []Figure      `json:"steps"`
	Checks []Figure      `json:"checks"`
	Took   time.Duration `json:"took_ns"`
	// Slow is how late the machine was meanwhile; TooSlow says that it was later than what the nodes are held to.
	Slow    slow.Report `json:"slow"`
	TooSlow bool        `json:"too_slow"`
}

// CouldNotJudge reports whether what broke may be the machine's fault, which was too slow for the drill: steps that took too long, or
// in which requests failed. No slowness excuses what the checks of the whole run find.
func (v Verdict) CouldNotJudge() bool {
	return v.TooSlow && !v.OK() && !slices.ContainsFunc(v.Checks, func(f Figure) bool { return len(f.Broken) > 0 })
}

// OK reports whether nothing was broken.
func (v Verdict) OK() bool {
	for _, f := range slices.Concat(v.Steps, v.Checks) {
		if len(f.Broken) > 0 {
			return false
		}
	}
	return true
}

// shown bounds how many violations of one kind are printed; the report has all.
const shown = 5

// Print writes the table.
func (v Verdict) Print(out io.Writer) error {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nstep\tverdict\ttook\trequests\tfailed\tlongest gap\tmedian gap\thandovers\tlongest\tmedian")
	ms := func(d time.Duration) string {
		if d == 0 {
			return "-"
		}
		return d.Round(time.Millisecond).String()
	}
	for _, f := range v.Steps {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\t%s\t%d\t%s\t%s\n", f.Name, verdict(f), f.Took.Round(100*time.Millisecond), f.Asked, f.Failed, ms(f.Longest), ms(f.Half),
			f.Handovers, ms(f.Without), ms(f.WithoutHalf))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(&b)
	for _, f := range v.Checks {
		fmt.Fprintf(&b, "%-5s %s\n", verdict(f), f.Name)
	}
	for _, f := range slices.Concat(v.Steps, v.Checks) {
		for _, text := range f.Texts {
			fmt.Fprintf(&b, "  %s: %s\n", f.Name, text)
		}
		for i, text := range f.Broken {
			if i == shown {
				fmt.Fprintf(&b, "  %s: and %d more\n", f.Name, len(f.Broken)-i)
				break
			}
			fmt.Fprintf(&b, "  %s: BROKEN: %s\n", f.Name, text)
		}
		for _, line := range f.Evidence {
			fmt.Fprintf(&b, "    %s\n", line)
		}
	}
	fmt.Fprintf(&b, "  the machine: %v\n", v.Slow)
	_, err := io.WriteString(out, b.String())
	return err
}

func verdict(f Figure) string {
	if len(f.Broken) > 0 {
		return "FAIL"
	}
	return "pass"
}
