package leaseactor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/leaseactor"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/planted"
	"github.com/leasehold/leasehold/stores/sqlite"
	"github.com/leasehold/leasehold/stores/storetest"
)

// life is one seeded run: sessions of one owner follow each other on one node, against a real lease
// store that loses answers, delays requests and lets them take effect late, while another owner takes
// the lease whenever the store lets it, and the holder's clock runs slow by as much as the margin
// allows. It checks what the timed model of the protocol checks, and the rules that model assumes:
//
//	serving  while a fence is open, the store lists that owner at that epoch as live (D1, D2, D3, S10)
//	spent    once a release or a MarkForgotten was sent, no fence is open at that epoch (D7, D11, S6)
//	lost     once the store has refused a renewal, that session's fence is closed (D4)
type life struct {
	rng    *rand.Rand
	faults planted.Set
	real   *sqlite.Store
	faulty *storetest.FaultyLeases
	spent  *leaseactor.Spent
	born   time.Time
	slow   float64 // how much slower than the store's the holder's clock runs

	sky struct { // of the weather; its own, since a planted fault sends requests on goroutines of its own
		sync.Mutex
		rng *rand.Rand
		bad bool // most requests fail
	}

	mu       sync.Mutex
	version  int             // counts the effects at the store
	record   messages.Lease  // as the last effect left it
	gone     bool            // it was released
	sent     uint64          // the highest epoch for which a release or a MarkForgotten was sent
	broken   map[uint64]bool // epochs that were ended behind the holder's back
	sessions []*leaseactor.Holder
	found    map[string]string // the first finding for each rule
	grants   int
}

const lifetime = 8 * time.Second

// run returns which rules were broken, and how many leases the owner was granted.
func run(t *testing.T, seed uint64, faults planted.Set) (found map[string]string, grants int) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		real, err := sqlite.Open(context.Background(), sqlite.Config{Path: filepath.Join(dir, "leases.db"), NoSync: true})
		require.NoError(t, err)
		l := &life{rng: rand.New(rand.NewPCG(seed, 1)), faults: faults, real: real, faulty: storetest.NewFaultyLeases(real),
			spent: leaseactor.NewSpent(), born: time.Now(), broken: map[uint64]bool{}, found: map[string]string{}}
		// Over a whole ttl the clock falls behind by up to the margin, less the store's resolution.
		l.slow = float64(margin-2*tick) / float64(ttl) * float64(l.rng.IntN(3)) / 2
		l.sky.rng = rand.New(rand.NewPCG(seed, 3))
		l.faulty.Program(l.weather)
		l.faulty.Observe(l.observe)
		ctx, cancel := context.WithTimeout(context.Background(), lifetime)
		defer cancel()
		var others sync.WaitGroup
		others.Go(func() { l.contend(ctx, rand.New(rand.NewPCG(seed, 2))) })
		others.Go(func() { l.watch(ctx) })
		for ctx.Err() == nil {
			l.session(ctx)
		}
		others.Wait()
		time.Sleep(8 * ttl) // late effects, and the goroutines of planted.LateAnswerNewestSent
		l.faulty.DropLate()
		require.NoError(t, real.Close())
		found, grants = l.found, l.grants
	})
	return found, grants
}

// now is the holder's clock.
func (l *life) now() time.Time {
	passed := time.Since(l.born)
	return l.born.Add(passed - time.Duration(float64(passed)*l.slow))
}

// weather decides what becomes of a request of the holder.
func (l *life) weather(storetest.Call) storetest.Action {
	l.sky.Lock()
	defer l.sky.Unlock()
	rng := l.sky.rng
	if rng.IntN(15) == 0 {
		l.sky.bad = !l.sky.bad
	}
	d := time.Duration(rng.Int64N(int64(5 * timeout)))
	n := rng.IntN(100)
	if l.sky.bad {
		n = 50 + n/2
	}
	switch {
	case n < 50:
		return storetest.Action{Delay: d / 50, AnswerDelay: d / 50}
	case n < 58:
		return storetest.Delay(d)
	case n < 68:
		return storetest.DelayAnswer(d)
	case n < 76:
		return storetest.LoseAnswer(nil)
	case n < 84:
		return storetest.FailLate(nil, d)
	case n < 92:
		return storetest.HangLate(2 * d)
	}
	return storetest.Fail(errors.New("no route"))
}

// observe follows the holder's requests.
func (l *life) observe(e storetest.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ends := e.Call.Op == storetest.OpRelease || e.Call.Op == storetest.OpForget
	switch {
	case e.Phase == storetest.Called && ends:
		l.sent = max(l.sent, e.Call.Epoch)
	case e.Phase != storetest.Took || e.Result.Err != nil || e.Call.Op == storetest.OpRead || e.Call.Op == storetest.OpForget:
	case e.Call.Op == storetest.OpRelease:
		l.took(l.record, true)
	default:
		l.took(e.Result.Lease, false)
		if e.Call.Op == storetest.OpAcquire {
			l.grants++
		}
	}
}

// took notes an effect at the store; the caller holds the lock.
func (l *life) took(record messages.Lease, gone bool) {
	l.version++
	l.record, l.gone = record, gone
}

// contend is the other owner, and now and then somebody who ends the holder's lease by hand. The
// lock is held meanwhile, so that effects are noted in the order in which they took place.
func (l *life) contend(ctx context.Context, rng *rand.Rand) {
	for ctx.Err() == nil {
		time.Sleep(time.Duration(rng.Int64N(int64(ttl))))
		l.mu.Lock()
		epoch := uint64(0)
		if lease, err := l.real.Acquire(context.Background(), key, other, 100*time.Millisecond); err == nil {
			l.took(lease, false)
			epoch = lease.Epoch
		} else if rng.IntN(25) == 0 && l.real.Release(context.Background(), key, owner, l.record.Epoch) == nil {
			l.broken[l.record.Epoch] = true
			l.took(l.record, true)
		}
		l.mu.Unlock()
		if epoch == 0 {
			continue
		}
		time.Sleep(time.Duration(rng.Int64N(int64(margin))))
		if rng.IntN(2) == 0 {
			l.mu.Lock()
			if l.real.Release(context.Background(), key, other, epoch) == nil {
				l.took(l.record, true)
			}
			l.mu.Unlock()
		}
	}
}

// watch checks every fence in each ms.
func (l *life) watch(ctx context.Context) {
	for ctx.Err() == nil {
		l.mu.Lock()
		version, record, gone, sent, sessions := l.version, l.record, l.gone, l.sent, l.sessions
		l.mu.Unlock()
		for _, h := range sessions {
			epoch := h.Lease().Epoch
			if !h.Fence().Open() {
				continue
			}
			if epoch <= sent {
				l.report("spent", "open at epoch %d, for which a release or a MarkForgotten was sent", epoch)
			}
			live := record.Owner == owner && record.Epoch == epoch && !gone && time.Now().UnixMilli() < record.End.UnixMilli()
			l.mu.Lock()
			// An effect in between may have opened this fence rightly.
			certain := version == l.version && !l.broken[epoch]
			l.mu.Unlock()
			if !live && certain {
				l.report("serving", "open at epoch %d, while the store lists %s at %d, released: %v, end: %v ago",
					epoch, record.Owner, record.Epoch, gone, time.Since(record.End))
			}
		}
		time.Sleep(tick)
	}
}

func (l *life) report(rule, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.found[rule] == "" {
		l.found[rule] = fmt.Sprintf(format, args...)
	}
}

// session is one holder from its acquire to its end.
func (l *life) session(ctx context.Context) {
	h, err := leaseactor.NewHolder(leaseactor.Config{Store: l.faulty, Key: key, Owner: owner, TTL: ttl, Margin: margin,
		CallTimeout: timeout, Now: l.now, Spent: l.spent, Planted: l.faults, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		l.report("session", "%v", err)
		return
	}
	l.mu.Lock()
	l.sessions = append(l.sessions, h)
	l.mu.Unlock()
	pause := func(most time.Duration) { time.Sleep(time.Duration(l.rng.Int64N(int64(most)))) }
	for ctx.Err() == nil {
		if _, err := h.Acquire(context.Background()); err == nil {
			break
		}
		pause(window)
	}
	for ctx.Err() == nil && h.Fence().Reason() == "" {
		pause(window / 2)
		switch n := l.rng.IntN(100); {
		case n < 85:
			var refused atomic.Bool
			l.faulty.AfterNext(storetest.OpRenew, func(_ context.Context, _ storetest.Call, r storetest.Result) {
				refused.Store(errors.Is(r.Err, messages.ErrLost))
			})
			_, _ = h.Renew(context.Background())
			if refused.Load() && h.Fence().Open() {
				l.report("lost", "open at epoch %d after a refused renewal", h.Lease().Epoch)
			}
		case n < 88: // its actor crashes; the fence stays open, and the next session finds the lease
			time.AfterFunc(time.Duration(l.rng.Int64N(int64(ttl))), func() { _ = h.Release(context.Background()) })
			return
		case n < 91:
			_ = h.MarkForgotten(context.Background())
		default:
			_ = h.Release(context.Background())
		}
	}
	// A node goes on with the next session, whether or not this one could be released.
	for range l.rng.IntN(3) {
		_ = h.Release(context.Background())
	}
}

func TestD_NoFenceIsOpenUnlessTheStoreListsTheLease(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 10
	}
	if n := os.Getenv("LEASEHOLD_LIVES"); n != "" { // for a soak
		var err error
		seeds, err = strconv.ParseUint(n, 10, 32)
		require.NoError(t, err)
	}
	granted := 0
	for seed := range seeds {
		found, grants := run(t, seed, 0)
		require.Empty(t, found, "seed %d", seed)
		granted += grants
	}
	require.Greater(t, granted, int(3*seeds), "the holder was hardly ever granted the lease: nothing was tried")
	t.Logf("%d lives of %v, %d grants", seeds, lifetime, granted)
}

func TestD_EveryPlantedFaultIsFound(t *testing.T) {
	for fault, rule := range map[planted.Fault]string{
		planted.WindowFromAnswer:      "serving",
		planted.MarginZero:            "serving",
		planted.LateAnswerNewestSent:  "serving",
		planted.ServeAfterLostRelease: "serving",
		planted.AdoptWithoutRenewal:   "serving",
		planted.AdoptReleasedEpoch:    "serving",
		planted.NoSelfFence:           "serving",
		planted.IgnoreLeaseLost:       "lost",
		planted.ForgetResume:          "spent",
	} {
		t.Run(fault.String(), func(t *testing.T) {
			for seed := range uint64(500) {
				if found, _ := run(t, seed, planted.Of(fault)); found[rule] != "" {
					t.Logf("seed %d: %s: %s", seed, rule, found[rule])
					return
				}
			}
			t.Fatalf("no life within 500 seeds broke the rule %q", rule)
		})
	}
}
