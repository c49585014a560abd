package storetest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

// durableChecks are the lines of section F of the contract, and what the interface promises beyond them.
var durableChecks = []durableCheck{
	{"F1", "put_never_overwrites", checkPut},
	{"F2", "unknown_is_absent", checkAbsent},
	{"F3", "bytes_round_trip", checkRoundTrip},
	{"F4", "list", checkList},
	{"F5", "delete_prefix", checkDeletePrefix},
	{"F6", "sixteen_puts", checkSixteenPuts},
	{"F7", "out_of_range", checkMalformed},
	{"F8", "whole_segments", checkWholeSegments},
	{"F.bound", "get_is_bounded", checkBound},
	{"F.delete", "delete_one", checkDelete},
	{"F.torn", "never_a_part", checkTorn},
	{"F.race", "puts_beside_deletes", checkPutsBesideDeletes},
}

func checkPut(o *objects) {
	defer o.clean()
	o.put("a/one", []byte("first"))
	created, err := o.PutIfAbsent(o.ctx, o.prefix+"a/one", []byte("second"))
	o.ok(err, "second put")
	if created {
		o.errorf("the second put says that it created the object")
	}
	o.has("a/one", []byte("first"))
	o.put("a/empty", nil)
	o.has("a/empty", nil)
	if created, err := o.PutIfAbsent(o.ctx, o.prefix+"a/empty", []byte("x")); err != nil || created {
		o.errorf("a put over an empty object: created %t, %v", created, err)
	}
}

func checkAbsent(o *objects) {
	defer o.clean()
	o.absent("nothing")
	o.absent("no/folder/either")
	o.put("folder/object", []byte("x"))
	o.absent("folder")          // a folder is no object
	o.absent("folder/object/x") // nor is an object a folder
	if keys, err := o.List(o.ctx, o.prefix+"none/"); err != nil || len(keys) != 0 {
		o.errorf("list of nothing: %q, %v", keys, err)
	}
}

func checkRoundTrip(o *objects) {
	defer o.clean()
	data := make([]byte, 1<<20+3)
	source := rand.NewChaCha8([32]byte{7})
	_, _ = source.Read(data) // never fails
	sent := slices.Clone(data)
	o.put("big", sent)
	clear(sent) // the caller may reuse its bytes
	o.has("big", data)
	got, _, err := o.Get(o.ctx, o.prefix+"big", suiteBytes)
	o.ok(err, "get")
	clear(got)
	o.has("big", data)
}

func checkList(o *objects) {
	defer o.clean()
	// In the order of their text, which is not the order in which folders are walked: - and . come
	// before / and upper case before lower.
	names := []string{"A", "e1-x", "e1.x/y", "e1/base.json", "e1/snap-000001.db", "e1/snap-000001.json", "e1/snap-000002.db", "e10/snap-1", "e2/deep/er/x"}
	for _, i := range rand.Perm(len(names)) {
		o.put(names[i], []byte("x"))
	}
	for _, want := range []struct {
		prefix string
		names  []string
	}{
		{"", names},
		{"e1/", names[3:7]},
		{"e1/snap-", names[4:7]},
		{"e1/snap-000001", names[4:6]},
		{"e1/snap-000002.db", names[6:7]},
		{"e1", names[1:8]},
		{"e2/deep", names[8:]},
		{"e2/deep/er/", names[8:]},
		{"x", nil},
		{"A/", nil},
	} {
		var keys []string
		for _, n := range want.names {
			keys = append(keys, o.prefix+n)
		}
		got, err := o.List(o.ctx, o.prefix+want.prefix)
		o.ok(err, "list of "+want.prefix)
		if !slices.Equal(got, keys) {
			o.errorf("list of %q: got %q, want %q", want.prefix, got, keys)
		}
	}
	all, err := o.List(o.ctx, "")
	o.ok(err, "list of everything")
	if !slices.IsSorted(all) || !slices.Contains(all, o.prefix+"A") {
		o.errorf("the list of everything is not sorted, or not everything")
	}
}

func checkDeletePrefix(o *objects) {
	defer o.clean()
	for _, n := range []string{"e1/a", "e1/b/c", "e1/b/d", "e2/a", "e1x"} {
		o.put(n, []byte(n))
	}
	count := func(prefix string, want int) {
		n, err := o.DeletePrefix(o.ctx, o.prefix+prefix)
		o.ok(err, "delete of "+prefix)
		if n != want {
			o.errorf("delete of %s counts %d, want %d", prefix, n, want)
		}
	}
	count("e1/", 3)
	o.absent("e1/a")
	o.absent("e1/b/c")
	o.has("e2/a", []byte("e2/a"))
	o.has("e1x", []byte("e1x"))
	count("e1/", 0)
	count("never/", 0)
	o.put("e1/a", []byte("again"))
	o.has("e1/a", []byte("again"))
}

func checkSixteenPuts(o *objects) {
	defer o.clean()
	for round := range 4 {
		name := fmt.Sprintf("contended-%d", round)
		const contenders = 16
		var created [contenders]bool
		var errs [contenders]error
		bodies := make([][]byte, contenders)
		start := make(chan struct{})
		var wg sync.WaitGroup
		for i := range contenders {
			bodies[i] = bytes.Repeat([]byte{byte('a' + i)}, 1000+i)
			wg.Go(func() {
				<-start
				created[i], errs[i] = o.PutIfAbsent(o.ctx, o.prefix+name, bodies[i])
			})
		}
		close(start)
		wg.Wait()
		winner := -1
		for i := range contenders {
			o.ok(errs[i], "a concurrent put")
			if created[i] && winner >= 0 {
				o.fatalf("contenders %d and %d both created %s", winner, i, name)
			}
			if created[i] {
				winner = i
			}
		}
		if winner < 0 {
			o.fatalf("nobody created %s", name)
		}
		o.has(name, bodies[winner])
	}
}

func checkMalformed(o *objects) {
	defer o.clean()
	long := strings.Repeat("x", 3000)
	for _, key := range []string{"", "/", "//", "/a", "a/", "a//b", "..", "../a", "a/..", "a/../b", "a/b..c", "..a", "a..",
		".", "./a", "a/.", ".hidden", "a/.hidden", "a b", " ", "a ", "a\x00b", "\x00", "a\nb", "a\\b", "a:b", "a*", "ä", "\xff", "a%2fb", long} {
		_, err := o.PutIfAbsent(o.ctx, key, []byte("x"))
		o.code(err, messages.CodeOutOfRange, fmt.Sprintf("put of %.20q", key))
		_, _, err = o.Get(o.ctx, key, suiteBytes)
		o.code(err, messages.CodeOutOfRange, fmt.Sprintf("get of %.20q", key))
		_, err = o.Delete(o.ctx, key)
		o.code(err, messages.CodeOutOfRange, fmt.Sprintf("delete of %.20q", key))
	}
	for _, prefix := range []string{"/", "../", "..", "a/../", "a//", ".", ".h", "a/.", "a b", "a\x00", long} {
		_, err := o.List(o.ctx, prefix)
		o.code(err, messages.CodeOutOfRange, fmt.Sprintf("list of %.20q", prefix))
	}
	for _, prefix := range []string{"", "/", "../", "./", "a/../", "a//", ".h/", "a b/", "a\x00/", long + "/"} {
		_, err := o.DeletePrefix(o.ctx, prefix)
		o.code(err, messages.CodeOutOfRange, fmt.Sprintf("delete of the prefix %.20q", prefix))
	}
}

func checkWholeSegments(o *objects) {
	defer o.clean()
	o.put("org/a", []byte("x"))
	o.put("org2/a", []byte("y"))
	_, err := o.DeletePrefix(o.ctx, o.prefix+"org")
	o.code(err, messages.CodeOutOfRange, "delete of a prefix without its slash")
	o.has("org/a", []byte("x"))
	o.has("org2/a", []byte("y"))
	n, err := o.DeletePrefix(o.ctx, o.prefix+"org/")
	o.ok(err, "delete of the prefix with its slash")
	if n != 1 {
		o.errorf("it counts %d, want 1", n)
	}
	o.absent("org/a")
	o.has("org2/a", []byte("y"))
}

// checkBound reads objects with the least bound that lets them through, and with one less.
func checkBound(o *objects) {
	defer o.clean()
	for name, size := range map[string]int64{"one": 1, "small": 1000, "large": 1 << 20} {
		o.put(name, make([]byte, size))
		data, ok, err := o.Get(o.ctx, o.prefix+name, size)
		o.ok(err, "get of an object that is as large as it may be")
		if !ok || int64(len(data)) != size {
			o.errorf("%s has %d bytes, want %d", name, len(data), size)
		}
		o.refuses(name, size, size-1)
		o.refuses(name, size, 0)
	}
	o.put("empty", nil)
	if _, ok, err := o.Get(o.ctx, o.prefix+"empty", 0); err != nil || !ok {
		o.errorf("an empty object within a bound of 0: %t, %v", ok, err)
	}
}

// refuses notes a Get that does not refuse an object over its bound as stores.Oversized does.
func (o *objects) refuses(name string, size, most int64) {
	data, ok, err := o.Get(o.ctx, o.prefix+name, most)
	want := messages.AsError(stores.Oversized(o.prefix+name, size, most))
	if e := messages.AsError(err); e == nil || ok || data != nil || e.Code != want.Code || e.Cause != want.Cause || e.Object != want.Object || e.Message != want.Message {
		o.errorf("get of an object of %d bytes, at most %d: %d bytes, %t, %v; want %v", size, most, len(data), ok, err, want)
	}
}
