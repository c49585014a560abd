package s3_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/s3"
	"github.com/leasehold/leasehold/stores/s3/s3test"
	"github.com/leasehold/leasehold/stores/storetest"
)

// manual opens leases of a node whose clock stands still until it is told to move. The server's own goes on.
func manual(t *testing.T, server *s3test.Server, lc s3.LeaseConfig) (*s3.Leases, *storetest.ManualClock) {
	t.Helper()
	return manualAt(t, server.Endpoint, lc)
}

func manualAt(t *testing.T, endpoint string, lc s3.LeaseConfig) (*s3.Leases, *storetest.ManualClock) {
	t.Helper()
	clock := storetest.NewManualClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	cfg := config(endpoint)
	cfg.Now = clock.Now
	return openLeases(t, cfg, lc), clock
}

const observedOnly = -1 // as ClockSkew: the server's clock is not relied on

// A contender that knows nothing but what it sees waits exactly a span from its first look.
func TestB2_ObservedForItsSpanToTheMillisecond(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t)
	holder, _ := manual(t, server, s3.LeaseConfig{})
	contender, clock := manual(t, server, s3.LeaseConfig{ClockSkew: observedOnly})
	lease, err := holder.Acquire(t.Context(), key1, "a", time.Second)
	require.NoError(t, err)

	refused := func(after time.Duration) {
		t.Helper()
		_, err := contender.Acquire(t.Context(), key1, "b", time.Second)
		require.ErrorIs(t, err, messages.ErrHeld)
		require.Equal(t, after, messages.AsError(err).RetryAfter)
		require.Equal(t, lease, *messages.AsError(err).Lease)
	}
	clock.Advance(time.Hour) // whatever passed before the first look proves nothing
	refused(time.Second)
	clock.Advance(400 * time.Millisecond)
	refused(600 * time.Millisecond)

	lease, err = holder.Renew(t.Context(), key1, "a", 1, time.Second)
	require.NoError(t, err)
	refused(time.Second) // another version: from the beginning
	clock.Advance(999 * time.Millisecond)
	_, err = contender.Acquire(t.Context(), key1, "b", time.Second)
	if err == nil {
		t.Fatal("granted 1 ms early")
	}
	clock.Advance(time.Millisecond)
	next, err := contender.Acquire(t.Context(), key1, "b", time.Second)
	require.NoError(t, err)
	require.Equal(t, uint64(2), next.Epoch)
	require.False(t, next.End.Before(lease.End))
}

// The holder's own end is counted from when the last write was SENT, on its own clock.
func TestB7_AHolderIsRefusedAtTheEndOfItsOwnSpan(t *testing.T) {
	t.Parallel()
	leases, clock := manual(t, s3test.Start(t), s3.LeaseConfig{})
	for _, tt := range []struct {
		after time.Duration
		want  error
	}{{999 * time.Millisecond, nil}, {time.Second, messages.ErrLost}} {
		key := storetest.NewKey()
		_, err := leases.Acquire(t.Context(), key, "a", time.Second)
		require.NoError(t, err)
		clock.Advance(tt.after)
		_, err = leases.Renew(t.Context(), key, "a", 1, time.Second)
		require.ErrorIs(t, err, tt.want)
		if tt.want != nil {
			require.ErrorIs(t, leases.MarkForgotten(t.Context(), key, "a", 1), tt.want)
			require.ErrorIs(t, leases.Release(t.Context(), key, "a", 1), tt.want)
		}
	}
}

// A renewal with a shorter ttl, or a forget, takes nothing back of what was promised.
func TestASpanIsNeverShortened(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t)
	holder, holderClock := manual(t, server, s3.LeaseConfig{})
	lease, err := holder.Acquire(t.Context(), key1, "a", 10*time.Second)
	require.NoError(t, err)
	holderClock.Advance(time.Second)
	shorter, err := holder.Renew(t.Context(), key1, "a", 1, time.Second)
	require.NoError(t, err)
	require.Equal(t, lease.End, shorter.End)
	holderClock.Advance(time.Second)
	require.NoError(t, holder.MarkForgotten(t.Context(), key1, "a", 1))

	contender, clock := manual(t, server, s3.LeaseConfig{ClockSkew: observedOnly})
	_, err = contender.Acquire(t.Context(), key1, "b", time.Second)
	require.ErrorIs(t, err, messages.ErrHeld)
	require.Equal(t, 8*time.Second, messages.AsError(err).RetryAfter)
	clock.Advance(8 * time.Second)
	next, err := contender.Acquire(t.Context(), key1, "b", time.Second)
	require.NoError(t, err)
	require.Equal(t, uint64(1), next.Floor)
}

// A contender that comes late sees by the server's own two stamps that the lease has long been over,
// and does not have to watch it for a span. Its own clock stands still.
func TestTheAgeOfARecordProvesItsEnd(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t)
	proxy := s3test.NewProxy(t, server)
	holder, _ := manual(t, server, s3.LeaseConfig{})
	contender, _ := manualAt(t, proxy.Endpoint, s3.LeaseConfig{})
	doubter, _ := manualAt(t, proxy.Endpoint, s3.LeaseConfig{ClockSkew: observedOnly})
	const ttl = 20 * time.Second
	_, err := holder.Acquire(t.Context(), key1, "a", ttl)
	require.NoError(t, err)
	// Near the present, because a client that is told another time signs with that. And at the very end of
	// the second that is said.
	written := time.Now().Add(-ttl).Truncate(time.Second).Add(time.Second - 1)
	require.NoError(t, os.Chtimes(server.Path("leases/"+key1.String()), written, written))
	said := written.Truncate(time.Second)

	// What is needed: the span, 1 s for the resolution of Last-Modified, and ClockSkew. (Date is never ahead of
	// its time, so its resolution makes nothing too early.)
	for _, short := range []time.Duration{2 * ttl, ttl, 3 * time.Second, time.Second} {
		proxy.SetDate(said.Add(ttl + 2*time.Second - short))
		_, err = contender.Acquire(t.Context(), key1, "b", ttl)
		require.ErrorIs(t, err, messages.ErrHeld)
		require.Equal(t, min(ttl, short), messages.AsError(err).RetryAfter)
	}
	proxy.SetDate(said.Add(ttl + 2*time.Second))
	_, err = doubter.Acquire(t.Context(), key1, "b", ttl)
	require.ErrorIs(t, err, messages.ErrHeld)
	next, err := contender.Acquire(t.Context(), key1, "b", ttl)
	require.NoError(t, err)
	require.Equal(t, uint64(2), next.Epoch)
}

// The age of a log proves the end of what stands in it, as that of a record does.
func TestTheAgeOfALogProvesTheEndOfItsRenewals(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t)
	proxy := s3test.NewProxy(t, server)
	holder, _ := manual(t, server, s3.LeaseConfig{})
	contender, _ := manualAt(t, proxy.Endpoint, s3.LeaseConfig{})
	const ttl = 20 * time.Second
	_, err := holder.Acquire(t.Context(), key1, "a", ttl)
	require.NoError(t, err)
	_, err = holder.Renew(t.Context(), key1, "a", 1, ttl)
	require.NoError(t, err)
	old, written := time.Now().Add(-time.Hour), time.Now().Add(-ttl).Truncate(time.Second).Add(time.Second-1)
	require.NoError(t, os.Chtimes(server.Path("leases/"+key1.String()), old, old))
	logs, err := filepath.Glob(server.Path("renewals/*"))
	require.NoError(t, err)
	require.Len(t, logs, 1)
	require.NoError(t, os.Chtimes(logs[0], written, written))
	said := written.Truncate(time.Second)
	for _, short := range []time.Duration{2 * ttl, ttl, 3 * time.Second, time.Second} {
		proxy.SetDate(said.Add(ttl + 2*time.Second - short))
		_, err = contender.Acquire(t.Context(), key1, "b", ttl)
		require.ErrorIs(t, err, messages.ErrHeld)
		require.Equal(t, min(ttl, short), messages.AsError(err).RetryAfter)
	}
	proxy.SetDate(said.Add(ttl + 2*time.Second))
	next, err := contender.Acquire(t.Context(), key1, "b", ttl)
	require.NoError(t, err)
	require.Equal(t, uint64(2), next.Epoch)
}

// The wait for the proof, when the end has passed by the estimate only.
func TestAcquireWaitsForTheProof(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t)
	holder := openLeases(t, config(server.Endpoint), s3.LeaseConfig{})
	patient := openLeases(t, config(server.Endpoint), s3.LeaseConfig{ClockSkew: observedOnly, AcquireWait: 5 * time.Second})
	impatient := openLeases(t, config(server.Endpoint), s3.LeaseConfig{ClockSkew: observedOnly, AcquireWait: -1})
	const ttl = 400 * time.Millisecond
	lease, err := holder.Acquire(t.Context(), key1, "a", ttl)
	require.NoError(t, err)
	require.NoError(t, storetest.RealTime{}.Pass(t.Context(), ttl+100*time.Millisecond)) // both look for the first time after its end
	_, err = impatient.Acquire(t.Context(), key1, "b", ttl)
	require.ErrorIs(t, err, messages.ErrHeld)
	began := time.Now()
	next, err := patient.Acquire(t.Context(), key1, "c", ttl)
	require.NoError(t, err)
	require.Equal(t, lease.Epoch+1, next.Epoch)
	require.GreaterOrEqual(t, time.Since(began), ttl)
}

// Two nodes on real time: however the renewals of one and the looks of the other fall, the other is never
// granted the lease before the ttl has passed since the last renewal was sent, and soon after that it is.
func TestB2_NeverEarlyAndSoonAfter(t *testing.T) {
	server := s3test.Start(t)
	a, b := openLeases(t, config(server.Endpoint), s3.LeaseConfig{}), openLeases(t, config(server.Endpoint), s3.LeaseConfig{})
	const ttl = 300 * time.Millisecond
	for round := range 4 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			key := storetest.NewKey()
			sent := time.Now()
			_, err := a.Acquire(t.Context(), key, "a", ttl)
			require.NoError(t, err)
			granted := make(chan time.Time, 1)
			go func() {
				for {
					_, err := b.Acquire(t.Context(), key, "b", ttl)
					if messages.CodeOf(err) == messages.CodeHeld {
						err = storetest.RealTime{}.Pass(t.Context(), min(messages.AsError(err).RetryAfter, 50*time.Millisecond))
					} else {
						granted <- time.Now()
						return
					}
					if err != nil {
						return
					}
				}
			}()
			for range 3 + round {
				require.NoError(t, storetest.RealTime{}.Pass(t.Context(), ttl/4))
				again := time.Now()
				if _, err := a.Renew(t.Context(), key, "a", 1, ttl); err != nil {
					require.ErrorIs(t, err, messages.ErrLost) // a slow machine
					break
				}
				sent = again
			}
			at := <-granted
			require.GreaterOrEqual(t, at.Sub(sent), ttl, "early")
			require.Less(t, at.Sub(sent), ttl+2*time.Second, "late")
			t.Logf("taken %v after the end", at.Sub(sent)-ttl)
		})
	}
}
