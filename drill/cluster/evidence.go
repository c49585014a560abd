package cluster

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// perFigure bounds the lines of the nodes' logs that are shown for what one step, or one check, found.
const perFigure = 40

var tenantNumber = regexp.MustCompile(`\btenant (\d+)\b`)

// evidence returns lines of the nodes' logs about what is broken: those of the tenants that it names, or else the warnings and errors.
// Of a step they are from its time, and a little around it.
func (d *drill) evidence(f Figure) (out []string, err error) {
	if len(f.Broken) == 0 {
		return nil, nil
	}
	keys := d.named(append(slices.Clone(f.Broken[:min(shown, len(f.Broken))]), f.Texts...))
	type found struct {
		at   time.Time
		text string
	}
	var lines []found
	for _, n := range append(slices.Clone(d.nodes), d.former...) {
		for _, l := range n.lives {
			err := eachLogLine(l.log, func(line logLine, text string) {
				within := f.Begun.IsZero() || !line.Time.Before(f.Begun.Add(-time.Second)) && !line.Time.After(f.Begun.Add(f.Took+time.Second))
				about := slices.Contains(keys, line.Key) || len(keys) == 0 && (line.Level == "WARN" || line.Level == "ERROR")
				if within && about {
					lines = append(lines, found{line.Time, fmt.Sprintf("%s: %s", filepath.Base(l.log), text)})
				}
			})
			if err != nil {
				return nil, err
			}
		}
	}
	slices.SortStableFunc(lines, func(a, b found) int { return a.at.Compare(b.at) })
	for _, l := range lines[max(0, len(lines)-perFigure):] {
		out = append(out, l.text)
	}
	return out, nil
}

// named returns the keys of the tenants that texts name, by number or by key.
func (d *drill) named(texts []string) (keys []string) {
	for _, text := range texts {
		for _, m := range tenantNumber.FindAllStringSubmatch(text, -1) {
			if i, _ := strconv.Atoi(m[1]); i < len(d.keys) {
				keys = append(keys, d.keys[i].String())
			}
		}
		for _, key := range d.keys {
			if strings.Contains(text, key.String()) {
				keys = append(keys, key.String())
			}
		}
	}
	return keys
}

// eachLogLine calls f with each line of a node's log.
func eachLogLine(path string, f func(line logLine, text string)) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line logLine
		if !strings.HasPrefix(lines.Text(), "{") || json.Unmarshal(lines.Bytes(), &line) != nil {
			continue // not the log's, or the process died while it wrote this line
		}
		f(line, lines.Text())
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
