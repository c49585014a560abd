package storetest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/dir"
	"github.com/leasehold/leasehold/stores/storetest"
)

// A test of code that must survive a lost answer: the put takes effect, and its caller is not told.
func Example() {
	ctx := context.Background()
	root, err := os.MkdirTemp("", "objects")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(root)
	real, err := dir.Open(ctx, dir.Config{Root: root})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer real.Close()

	store := storetest.NewFaultyDurable(real)
	store.LoseNext(storetest.OpPut, nil)

	_, err = store.PutIfAbsent(ctx, "acme/object", []byte("mine"))
	fmt.Println("unavailable:", errors.Is(err, messages.ErrUnavailable))
	data, ok, err := store.Get(ctx, "acme/object", 1<<30)
	fmt.Println("read back:", string(data), ok, err)
	// Output:
	// unavailable: true
	// read back: mine true <nil>
}

// A program decides on every call: here, every third one is held up.
func ExampleFaults_Program() {
	store := storetest.NewFaultyDurable(nil)
	store.Program(func(c storetest.Call) storetest.Action {
		if c.Seq%3 == 0 {
			return storetest.Action{Delay: time.Millisecond, Effect: storetest.EffectNone}
		}
		return storetest.Fail(errors.New("refused"))
	})
	for range 3 {
		_, err := store.PutIfAbsent(context.Background(), "a", nil)
		fmt.Println(err)
	}
	// Output:
	// refused
	// refused
	// unavailable: planned fault
}

// The whole suite, outside a test: a store that conforms has no failures.
func ExampleCheckDurable() {
	root, err := os.MkdirTemp("", "objects")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(root)
	store, err := dir.Open(context.Background(), dir.Config{Root: root, NoSync: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()

	fmt.Println("good:", len(storetest.CheckDurable(context.Background(), store)))
	for _, failure := range storetest.CheckDurable(context.Background(), storetest.UnsortedList(store)) {
		fmt.Println("broken:", failure.Check, failure.Name)
		break
	}
	// Output:
	// good: 0
	// broken: F4 list
}
