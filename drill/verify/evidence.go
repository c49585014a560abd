package verify

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/leasehold/leasehold/drill/record"
	"github.com/leasehold/leasehold/drill/replica"
	"github.com/leasehold/leasehold/messages"
)

// perFinding bounds the lines that are shown for one finding, of the records and of the processes' logs.
const perFinding = 15

var (
	tenantName = regexp.MustCompile(`\bt(\d+)\b`)
	epochName  = regexp.MustCompile(`\be(\d+)\b`)
)

// evidence returns the lines of the records, and of the processes' logs, about the findings that the table shows: of the tenant and the
// epochs that a finding names, and of the writes in it. About a finding that names no tenant it returns the newest lines.
func (r *run) evidence(root string, broken []string) (out []string) {
	for _, text := range broken[:min(shown, len(broken))] {
		key, epoch := "", uint64(0)
		if m := tenantName.FindStringSubmatch(text); m != nil {
			if i, _ := strconv.Atoi(m[1]); i >= 1 && i <= len(r.info.Tenants) {
				key = r.info.Tenants[i-1]
			}
		}
		if m := epochName.FindStringSubmatch(text); m != nil {
			epoch, _ = strconv.ParseUint(m[1], 10, 64)
		}
		var lines []string
		for _, l := range r.lines {
			if about(l, text, key, epoch) {
				if data, err := l.Encode(); err == nil {
					lines = append(lines, strings.TrimSpace(string(data)))
				}
			}
		}
		out = append(out, text)
		out = append(out, lines[max(0, len(lines)-perFinding):]...)
		out = append(out, logLines(root, key)...)
	}
	return out
}

// about reports whether a line of a record is about a finding.
func about(l record.Line, text, key string, epoch uint64) bool {
	switch {
	case l.Kind == record.Row:
		return false
	case key == "":
		return l.Kind == record.Action || l.Kind == record.Lifecycle && l.Life != nil && l.Life.Kind != messages.LifecycleRenewed
	case l.Key != key:
		return false
	case l.Write != "":
		return mentions(text, l.Write)
	case l.Kind == record.Lifecycle:
		return l.Life == nil || l.Life.Kind != messages.LifecycleRenewed && (epoch == 0 || l.Epoch+1 >= epoch && l.Epoch <= epoch+1)
	}
	return l.Kind == record.LeaseCall && l.Op != messages.OpRenew && (epoch == 0 || l.Epoch+1 >= epoch && l.Epoch <= epoch+1)
}

// mentions reports whether a word is in a text.
func mentions(text, word string) bool {
	return slices.Contains(strings.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(` ,;:"()`, c) }), word)
}

// logLines returns the newest warnings and errors of the processes' own logs that name a tenant; of any, if key is "".
func logLines(root, key string) (out []string) {
	paths, _ := filepath.Glob(replica.LogPath(root, "*")) // the pattern is good
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			continue
		}
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if line := lines.Text(); strings.Contains(line, key) && (strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR")) {
				out = append(out, fmt.Sprintf("%s: %s", filepath.Base(path), line))
			}
		}
		_ = file.Close()
	}
	slices.SortStableFunc(out, func(a, b string) int { return strings.Compare(logTime(a), logTime(b)) })
	return out[max(0, len(out)-perFinding):]
}

// logTime returns a line from its time on.
func logTime(line string) string { return line[max(0, strings.Index(line, "time=")):] }
