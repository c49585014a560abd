package nats

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPatienceFollowsTheServer(t *testing.T) {
	l := &link{}
	require.Equal(t, firstTry, l.patience().try, "nothing is known yet")
	l.answers.took(time.Millisecond)
	require.Equal(t, firstTry, l.patience().try, "a quick server is asked again early: its leader may have gone")
	for range 50 {
		l.answers.took(300 * time.Millisecond)
	}
	require.InDelta(t, 1200, l.patience().try.Milliseconds(), 20, "a busy one is given time")
	for range 50 {
		l.answers.took(time.Minute)
	}
	require.Equal(t, lastTry, l.patience().try)
	for range 100 {
		l.answers.took(time.Millisecond)
	}
	require.Equal(t, firstTry, l.patience().try, "and it is believed when it recovers")
}
