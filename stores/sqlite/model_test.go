package sqlite_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
	"github.com/leasehold/leasehold/stores/sqlite"
	"github.com/leasehold/leasehold/stores/storetest"
)

// model is what the store should do, in the fewest words: one map, and a clock that stands still.
type model struct {
	records map[messages.Key]messages.Lease
	trail   map[messages.Key][]messages.LeaseEntry
}

func (m *model) note(op string, l messages.Lease, now time.Time) messages.Lease {
	m.records[l.Key] = l
	m.trail[l.Key] = append(m.trail[l.Key], messages.LeaseEntry{Seq: uint64(len(m.trail[l.Key]) + 1), Op: op,
		Owner: l.Owner, Epoch: l.Epoch, TTL: l.TTL, End: l.End, Floor: l.Floor, At: now})
	return l
}

func (m *model) acquire(k messages.Key, owner string, ttl time.Duration, now time.Time) (messages.Lease, messages.Code) {
	l := m.records[k]
	if l.End.After(now) {
		return messages.Lease{}, messages.CodeHeld
	}
	return m.note(messages.OpAcquire, messages.Lease{Key: k, Owner: owner, Epoch: l.Epoch + 1, TTL: ttl, End: now.Add(ttl), Floor: l.Floor}, now), ""
}

// change applies fn to the record of a holder.
func (m *model) change(op string, k messages.Key, owner string, epoch uint64, now time.Time, fn func(*messages.Lease)) (messages.Lease, messages.Code) {
	l, ok := m.records[k]
	if !ok || l.Owner != owner || l.Epoch != epoch || !l.End.After(now) {
		return messages.Lease{}, messages.CodeLost
	}
	fn(&l)
	return m.note(op, l, now), ""
}

func (m *model) renew(k messages.Key, owner string, epoch uint64, ttl time.Duration, now time.Time) (messages.Lease, messages.Code) {
	return m.change(messages.OpRenew, k, owner, epoch, now, func(l *messages.Lease) {
		l.TTL = ttl
		if end := now.Add(ttl); end.After(l.End) {
			l.End = end
		}
	})
}

func TestModel_TheStoreDoesWhatTheModelDoes(t *testing.T) {
	// One file for all cases, each with keys of its own: the file and the clock only grow.
	path := filepath.Join(t.TempDir(), "leases.db")
	clock := storetest.NewManualClock(start.Truncate(time.Millisecond))
	// Two stores on one file, as two processes have them.
	pair := []*sqlite.Store{
		open(t, sqlite.Config{Path: path, Now: clock.Now, NoSync: true}),
		open(t, sqlite.Config{Path: path, Now: clock.Now, NoSync: true}),
	}
	ctx := context.Background()
	rapid.Check(t, func(t *rapid.T) {
		m := model{records: map[messages.Key]messages.Lease{}, trail: map[messages.Key][]messages.LeaseEntry{}}
		keys := []messages.Key{storetest.NewKey(), storetest.NewKey()}
		same := func(got messages.Lease, err error, want messages.Lease, code messages.Code) {
			if messages.CodeOf(err) != code || got != want {
				t.Fatalf("store: %+v, %v; model: %+v, %q", got, err, want, code)
			}
		}
		draw := func() (*sqlite.Store, stores.Renewal, time.Time) {
			return rapid.SampledFrom(pair).Draw(t, "store"), stores.Renewal{
				Key:   rapid.SampledFrom(keys).Draw(t, "key"),
				Owner: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "owner"),
				Epoch: rapid.Uint64Range(0, 5).Draw(t, "epoch"),
				TTL:   time.Duration(rapid.IntRange(100, 400).Draw(t, "ttl")) * time.Millisecond,
			}, clock.Now()
		}
		t.Repeat(map[string]func(*rapid.T){
			"acquire": func(*rapid.T) {
				s, r, now := draw()
				want, code := m.acquire(r.Key, r.Owner, r.TTL, now)
				got, err := s.Acquire(ctx, r.Key, r.Owner, r.TTL)
				same(got, err, want, code)
				if e := messages.AsError(err); e != nil && (*e.Lease != m.records[r.Key] || e.RetryAfter != e.Lease.End.Sub(now)) {
					t.Fatalf("held carries %+v, retry after %v; model: %+v", e.Lease, e.RetryAfter, m.records[r.Key])
				}
			},
			"renew": func(*rapid.T) {
				s, r, now := draw()
				want, code := m.renew(r.Key, r.Owner, r.Epoch, r.TTL, now)
				got, err := s.Renew(ctx, r.Key, r.Owner, r.Epoch, r.TTL)
				same(got, err, want, code)
			},
			"renew by the holder": func(*rapid.T) {
				s, r, now := draw()
				r.Owner, r.Epoch = m.records[r.Key].Owner, m.records[r.Key].Epoch
				if r.Epoch == 0 {
					t.Skip("never granted")
				}
				want, code := m.renew(r.Key, r.Owner, r.Epoch, r.TTL, now)
				got, err := s.Renew(ctx, r.Key, r.Owner, r.Epoch, r.TTL)
				same(got, err, want, code)
			},
			"renew many": func(*rapid.T) {
				s, _, now := draw()
				var batch []stores.Renewal
				for range rapid.IntRange(1, 4).Draw(t, "batch") {
					_, r, _ := draw()
					batch = append(batch, r)
				}
				got, err := s.RenewMany(ctx, batch)
				if err != nil || len(got) != len(batch) {
					t.Fatalf("%d results, %v", len(got), err)
				}
				for i, r := range batch {
					want, code := m.renew(r.Key, r.Owner, r.Epoch, r.TTL, now)
					same(got[i].Lease, got[i].Err, want, code)
				}
			},
			"release": func(*rapid.T) {
				s, r, now := draw()
				_, code := m.change(messages.OpRelease, r.Key, r.Owner, r.Epoch, now, func(l *messages.Lease) { l.End = now })
				same(messages.Lease{}, s.Release(ctx, r.Key, r.Owner, r.Epoch), messages.Lease{}, code)
			},
			"forget": func(*rapid.T) {
				s, r, now := draw()
				_, code := m.change(messages.OpForget, r.Key, r.Owner, r.Epoch, now, func(l *messages.Lease) { l.Floor = l.Epoch })
				same(messages.Lease{}, s.MarkForgotten(ctx, r.Key, r.Owner, r.Epoch), messages.Lease{}, code)
			},
			"time passes": func(*rapid.T) {
				clock.Advance(time.Duration(rapid.IntRange(1, 300).Draw(t, "ms")) * time.Millisecond)
			},
			"to the end": func(*rapid.T) {
				if end := m.records[keys[0]].End; end.After(clock.Now()) {
					clock.Set(end.Add(-time.Duration(rapid.IntRange(0, 1).Draw(t, "early")) * time.Millisecond))
				}
			},
			"": func(*rapid.T) {
				for _, k := range keys {
					s := rapid.SampledFrom(pair).Draw(t, "reader")
					got, ok, err := s.Read(ctx, k)
					want, there := m.records[k]
					if err != nil || ok != there || got != want {
						t.Fatalf("read %+v, %t, %v; model: %+v", got, ok, err, want)
					}
				}
			},
		})
		for _, k := range keys {
			got, err := pair[0].History(ctx, k)
			require.NoError(t, err)
			require.Equal(t, m.trail[k], got)
		}
	})
}

// Goroutines on several stores of one file take turns at one key: every grant has an epoch of its own.
func TestB4_EpochsUnderContentionHaveNoGap(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases.db")
	key := storetest.NewKey()
	const workers, rounds = 6, 15
	var wg sync.WaitGroup
	var mu sync.Mutex
	owners := map[uint64]string{}
	for w := range workers {
		store := open(t, sqlite.Config{Path: path, NoSync: true})
		owner := string(rune('a' + w))
		wg.Go(func() {
			for n := 0; n < rounds; {
				lease, err := store.Acquire(t.Context(), key, owner, time.Hour)
				if errors.Is(err, messages.ErrHeld) {
					continue
				}
				if err != nil {
					t.Errorf("acquire: %v", err)
					return
				}
				mu.Lock()
				if first, taken := owners[lease.Epoch]; taken {
					t.Errorf("epoch %d was granted to %s and %s", lease.Epoch, first, owner)
				}
				owners[lease.Epoch] = owner
				mu.Unlock()
				if err := store.Release(t.Context(), key, owner, lease.Epoch); err != nil {
					t.Errorf("release: %v", err)
					return
				}
				n++
			}
		})
	}
	wg.Wait()
	require.Len(t, owners, workers*rounds)
	for epoch := uint64(1); epoch <= workers*rounds; epoch++ {
		require.Contains(t, owners, epoch)
	}
}
