package history

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"github.com/leasehold/leasehold/messages"
)

// Record is one line of a log: exactly one of its fields is set.
type Record struct {
	Write     *Write              `json:"write,omitempty"`
	Read      *Read               `json:"read,omitempty"`
	Order     *Order              `json:"order,omitempty"`
	Lifecycle *messages.Lifecycle `json:"lifecycle,omitempty"`
}

// Add adds a record. A Write with the Key, ID and Attempt of an earlier one completes it: an intent
// becomes an answered request.
func (h *History) Add(r Record) {
	switch {
	case r.Write != nil:
		for i := len(h.Writes) - 1; i >= 0; i-- {
			if w := &h.Writes[i]; w.ID == r.Write.ID && w.Attempt == r.Write.Attempt && w.Key == r.Write.Key {
				*w = *r.Write
				return
			}
		}
		h.Writes = append(h.Writes, *r.Write)
	case r.Read != nil:
		h.Reads = append(h.Reads, *r.Read)
	case r.Order != nil:
		h.Orders = append(h.Orders, *r.Order)
	case r.Lifecycle != nil:
		h.Lifecycle = append(h.Lifecycle, *r.Lifecycle)
	}
}

// ReadLog adds the records of a log, one JSON document a line. A last line without its end, as a
// process that was killed leaves it, is left out.
func (h *History) ReadLog(in io.Reader) error {
	lines := bufio.NewReader(in)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read line %d of the log: %w", n, err)
		}
		var r Record
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("line %d of the log: %w", n, err)
		}
		h.Add(r)
	}
}
