package snapshotactor

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// caller makes calls of the store: each within CallTimeout, and again while it is not answered.
type caller struct{ Config }

// once makes one call.
func (c caller) once(ctx context.Context, object string, call func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, c.CallTimeout)
	defer cancel()
	return codeOrUnavailable(call(limited), object)
}

// retry makes a call until it is answered, Attempts are used up or ctx ends. The last two return
// what is known: CodeUnavailable, or the code that the store gave.
func (c caller) retry(ctx context.Context, object string, call func(context.Context) error) error {
	wait := c.Backoff
	for attempt := 1; ; attempt++ {
		if ctx.Err() != nil {
			return ended(ctx, object)
		}
		err := c.once(ctx, object, call)
		if err == nil || permanent(err) || attempt >= c.Attempts {
			return err
		}
		if !sleep(ctx, wait) {
			return ended(ctx, object)
		}
		wait = min(2*wait, c.MaxBackoff)
	}
}

// sleep waits for d and returns true, or returns false as soon as ctx ends.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (c caller) list(ctx context.Context) (names []string, err error) {
	prefix := c.Key.Prefix()
	err = c.retry(ctx, prefix, func(ctx context.Context) error {
		names, err = c.Store.List(ctx, prefix)
		return err
	})
	return names, err
}

// get reads an object of at most so many bytes.
func (c caller) get(ctx context.Context, name string, most int64) (data []byte, ok bool, err error) {
	err = c.retry(ctx, name, func(ctx context.Context) error {
		data, ok, err = c.Store.Get(ctx, name, most)
		return err
	})
	if e := messages.AsError(err); e != nil && e.Code == messages.CodeCorrupt && e.Key == "" {
		of := *e
		of.Key, err = tenantOf(name), &of
	}
	return data, ok, err
}

// small reads a pin, a manifest, a floor, or a seal.
func (c caller) small(ctx context.Context, name string) (data []byte, ok bool, err error) {
	return c.get(ctx, name, messages.MaxSmallObjectBytes)
}

// upload is one put-if-absent that is carried through whatever happens to its answers (S10).
type upload struct {
	name string
	data []byte
	// doubt is set when a put was not answered: it may land at any time. From then on it is settled
	// by reading back, and by nothing else.
	doubt bool
}

// there reads what is in the slot of the upload: nil if it is its own bytes. What is larger than anything that may be there
// is somebody else's, whatever it holds.
func (u *upload) there(ctx context.Context, c caller) (theirs []byte, ok bool, err error) {
	found, ok, err := c.Store.Get(ctx, u.name, max(int64(len(u.data)), messages.MaxSmallObjectBytes))
	switch {
	case errors.Is(err, messages.ErrTooLarge):
		return []byte{}, true, nil
	case err != nil || !ok:
		return nil, false, err
	}
	return others(found, u.data), true, nil
}

// land returns nil, nil when the upload's bytes are in the store, and the bytes of somebody else if
// those are there. An error leaves it as it was: land may be called again at any later time.
func (u *upload) land(ctx context.Context, c caller) (theirs []byte, err error) {
	err = c.retry(ctx, u.name, func(ctx context.Context) error {
		theirs = nil
		if u.doubt {
			if found, ok, err := u.there(ctx, c); ok || err != nil {
				theirs = found
				return err
			}
			// Absent: the request was lost, or is still under way. The same bytes again: whichever
			// lands first, it is ours.
		}
		created, err := c.Store.PutIfAbsent(ctx, u.name, u.data)
		switch {
		case err != nil:
			u.doubt = u.doubt || !permanent(err)
			return err
		case created:
			return nil
		}
		u.doubt = true
		found, ok, err := u.there(ctx, c)
		if err == nil && !ok {
			err = &messages.Error{Code: messages.CodeUnavailable, Object: u.name, Message: "the object was there a moment ago, and is gone"}
		}
		theirs = found
		return err
	})
	return theirs, err
}

// others returns found unless it is mine. It is never nil for other bytes, not even for none.
func others(found, mine []byte) []byte {
	if bytes.Equal(found, mine) {
		return nil
	}
	return append([]byte{}, found...)
}
