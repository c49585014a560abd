package sqllease

import (
	"database/sql"
	"errors"
	"slices"
	"strings"

	"github.com/leasehold/leasehold/messages"
)

// Differences compares a description of a schema, one line for each object, with the one that it should
// have. The error is CodeCorrupt; its Object is the first two words of the first line at fault.
func Differences(want, have []string) error {
	for _, line := range want {
		if !slices.Contains(have, line) {
			found := "nothing"
			for _, other := range have {
				if objectName(other) == objectName(line) {
					found = other
				}
			}
			return &messages.Error{Code: messages.CodeCorrupt, Object: objectName(line),
				Message: "missing or changed, so that records could be lost or granted twice: want \"" + line + "\", found \"" + found + "\""}
		}
	}
	for _, line := range have {
		if !slices.Contains(want, line) {
			return &messages.Error{Code: messages.CodeCorrupt, Object: objectName(line), Message: "does not belong into a lease store"}
		}
	}
	return nil
}

func objectName(line string) string {
	kind, rest, _ := strings.Cut(line, " ")
	name, _, _ := strings.Cut(rest, " ")
	return kind + " " + name
}

// Lines reads the answer to a query for a description, one line per row. It takes what a QueryContext returned.
func Lines(rows *sql.Rows, err error) ([]string, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var lines []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return nil, err
		}
		lines = append(lines, line)
	}
	return lines, errors.Join(rows.Err(), rows.Close())
}
