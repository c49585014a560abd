package cluster

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
)

func over(c <-chan struct{}) bool {
	synctest.Wait()
	select {
	case <-c:
		return true
	default:
		return c == nil
	}
}

func TestAnExpectationEnds(t *testing.T) {
	key := keys(t, 1)[0]
	for name, end := range map[string]func(*arrivals){
		"with its time":                         func(*arrivals) { time.Sleep(time.Second) },
		"when the tenant is here":               func(a *arrivals) { a.ended(key, "a#1") },
		"with another one of the same tenant":   func(a *arrivals) { a.expect(key, "b#1", time.Second) },
		"when the owner was not heard for long": func(a *arrivals) { a.endIf(func(from string) bool { return from == "a#1" }) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newArrivals(time.Now)
				require.Nil(t, a.waiting(key))
				a.expect(key, "a#1", time.Second)
				waiting := a.waiting(key)
				time.Sleep(time.Second - 1)
				a.ended(key, "b#1")
				a.endIf(func(from string) bool { return from != "a#1" })
				require.False(t, over(waiting), "not before")
				end(a)
				require.True(t, over(waiting))
				time.Sleep(time.Hour)
				require.Nil(t, a.waiting(key), "nothing is left")
			})
		})
	}
}

func TestADepartureIsRememberedForAWhile(t *testing.T) {
	now := epoch
	d := &departures{now: func() time.Time { return now }, keys: make(map[messages.Key]departure)}
	all := keys(t, 3)
	for _, key := range all {
		d.remember(key, "b#1")
	}
	d.forget(all[0])
	require.Empty(t, d.to(all[0]))
	require.Equal(t, "b#1", d.to(all[1]))
	now = now.Add(rememberMove)
	require.Empty(t, d.to(all[1]))
	require.Len(t, d.keys, 1)
	d.sweep()
	require.Empty(t, d.keys)
}
