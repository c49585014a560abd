package storetest

import (
	"bytes"
	"fmt"
	"sync"
)

func checkDelete(o *objects) {
	defer o.clean()
	o.put("a/one", []byte("1"))
	o.put("a/one-more", []byte("2"))
	for i, want := range []bool{true, false} {
		deleted, err := o.Delete(o.ctx, o.prefix+"a/one")
		o.ok(err, "delete")
		if deleted != want {
			o.errorf("delete number %d says %t, want %t", i+1, deleted, want)
		}
	}
	o.absent("a/one")
	o.has("a/one-more", []byte("2"))
	if deleted, err := o.Delete(o.ctx, o.prefix+"a"); err != nil || deleted {
		o.errorf("delete of a folder: %t, %v; want nothing deleted", deleted, err)
	}
	o.has("a/one-more", []byte("2"))
	o.put("a/one", []byte("3"))
	o.has("a/one", []byte("3"))
}

// checkTorn reads and lists while large objects are put: a reader sees nothing or the whole.
func checkTorn(o *objects) {
	defer o.clean()
	body := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MiB
	for round := range 5 {
		name := fmt.Sprintf("big-%d", round)
		done := make(chan struct{})
		var wg sync.WaitGroup
		var putErr, readErr error
		torn, seen := -1, false
		wg.Go(func() {
			defer close(done)
			_, putErr = o.PutIfAbsent(o.ctx, o.prefix+name, body)
		})
		wg.Go(func() {
			for {
				last := false
				select {
				case <-done:
					last = true // once more, so that the whole object is seen at least once
				default:
				}
				data, ok, err := o.Get(o.ctx, o.prefix+name, suiteBytes)
				switch {
				case err != nil:
					readErr = err
				case ok && !bytes.Equal(data, body):
					torn = len(data)
				case ok:
					seen = true
				case seen || last:
					torn = 0 // it was there, or its put is over
				}
				if last || err != nil {
					return
				}
			}
		})
		wg.Wait()
		o.ok(putErr, "put")
		o.ok(readErr, "get beside the put")
		if torn >= 0 {
			o.fatalf("a reader saw %d of %d bytes", torn, len(body))
		}
	}
}

// checkPutsBesideDeletes puts objects into a folder that is being deleted and becomes empty all the time:
// no put may fail for it, and every object is either counted by a delete or still there.
func checkPutsBesideDeletes(o *objects) {
	defer o.clean()
	const rounds = 3
	for round := 1; ; round++ {
		put, deleted, left := putsBesideDeletes(o, fmt.Sprintf("%sdeep-%d/", o.prefix, round))
		// A put whose answer is slow may be sent again, and so take effect twice if its object is deleted in
		// between. An object more every time is a fault, and so is one less at any time.
		if found := deleted + left; found < put || found > put && round == rounds {
			o.errorf("%d objects were put, but %d deleted and %d are left", put, deleted, left)
			return
		} else if found == put {
			return
		}
	}
}

// putsBesideDeletes returns how many objects were put into a folder, deleted meanwhile, and left.
func putsBesideDeletes(o *objects, folder string) (put, deleted, left int) {
	const writers, puts = 4, 25
	var wg, sweeping sync.WaitGroup
	var errs [writers + 1]error
	done := make(chan struct{})
	for w := range writers {
		wg.Go(func() {
			for i := range puts {
				created, err := o.PutIfAbsent(o.ctx, fmt.Sprintf("%ser/w%d-%d", folder, w, i), []byte("x"))
				if err == nil && !created {
					err = fmt.Errorf("put %d of writer %d says that it is there already", i, w)
				}
				if err != nil {
					errs[w] = err
					return
				}
			}
		})
	}
	sweeping.Go(func() {
		for {
			n, err := o.DeletePrefix(o.ctx, folder)
			deleted += n
			if err != nil {
				errs[writers] = err
				return
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	wg.Wait()
	close(done)
	sweeping.Wait()
	for _, err := range errs {
		o.ok(err, "a put or delete beside others")
	}
	names, err := o.List(o.ctx, folder)
	o.ok(err, "list")
	return writers * puts, deleted, len(names)
}
