package messages_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
)

// TestH2_WhatIsLostIsKnown compares the short list with the whole history, at random.
func TestH2_WhatIsLostIsKnown(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	lost, kept := 0, 0
	for range 200 {
		var list, all []messages.Began
		last := int64(0) // of the epoch before
		for epoch := uint64(1); epoch <= 60; epoch++ {
			seq := last
			if r.IntN(3) == 0 {
				seq = r.Int64N(last + 1) // the rest is lost
			}
			list, all = messages.Begin(list, epoch, seq), append(all, messages.Began{Epoch: epoch, Seq: seq})
			last = seq + r.Int64N(20)
			seen := messages.Seen{Epoch: uint64(r.Int64N(int64(epoch))), Seq: r.Int64N(last + 10)}
			require.Equal(t, seen.Lost(all), seen.Lost(list), "%v of %v", seen, all)
			if seen.Lost(all) {
				lost++
			} else {
				kept++
			}
		}
	}
	require.Greater(t, lost, 1000)
	require.Greater(t, kept, 1000)
}

func TestH2_AListOfEpochsIsBounded(t *testing.T) {
	var list []messages.Began
	for epoch := uint64(1); epoch <= 10_000; epoch++ {
		list = messages.Begin(list, epoch, int64(epoch))
	}
	require.Len(t, list, 128)
	require.True(t, messages.Seen{Epoch: 5000, Seq: 9000}.Lost(list), "nobody is told of too little")
	require.False(t, messages.Seen{Epoch: 9990, Seq: 9991}.Lost(list))
	require.True(t, messages.Seen{Epoch: 9990, Seq: 9992}.Lost(list))
}
