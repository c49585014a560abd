package dir_test

import (
	"context"
	"fmt"
	"os"

	"github.com/leasehold/leasehold/stores/dir"
)

func Example() {
	ctx := context.Background()
	root, err := os.MkdirTemp("", "objects")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(root)

	store, err := dir.Open(ctx, dir.Config{Root: root})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()

	for _, text := range []string{"first", "second"} {
		created, err := store.PutIfAbsent(ctx, "acme/report.txt", []byte(text))
		fmt.Println("created:", created, err)
	}
	data, ok, err := store.Get(ctx, "acme/report.txt", 1<<30)
	fmt.Println(string(data), ok, err)
	// Output:
	// created: true <nil>
	// created: false <nil>
	// first true <nil>
}
