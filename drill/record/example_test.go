package record_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/leasehold/leasehold/drill/record"
)

// A process notes what it is about to do before it does it; whatever becomes of the process, the line is there.
func Example() {
	dir, err := os.MkdirTemp("", "record-example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "r1.1.jsonl")
	w, err := record.Create(path, "r1.1")
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := w.Write(record.Line{Kind: record.Intent, Write: "w-1"}); err != nil {
		fmt.Println(err)
	}
	lines, err := record.ReadFile(path) // the writer may still be at work, or dead
	fmt.Println(lines[0].Kind, lines[0].Write, lines[0].Proc, err)
	fmt.Println(w.Close())
	// Output:
	// intent w-1 r1.1 <nil>
	// <nil>
}
