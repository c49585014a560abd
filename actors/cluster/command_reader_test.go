package cluster_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/actors/cluster"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

// A command without a key runs once, whatever it was told by others.
func TestACommandThatFailsBecauseOfAnotherTenantRunsOnce(t *testing.T) {
	for _, code := range []messages.Code{messages.CodeUnavailable, messages.CodeNotOwner, messages.CodeOverloaded, messages.CodeDraining} {
		f := newFleet(t)
		var ran atomic.Int64
		f.join("a", func(n *actors.Config, _ *cluster.Config) {
			n.Commands = map[string]ledgeractor.Command{"pay": func(context.Context, *ledgeractor.Tx, json.RawMessage) (any, error) {
				ran.Add(1)
				return nil, &messages.Error{Code: code, Key: "acme/other", Message: "of another tenant"}
			}}
		})
		_, err := f.tenant(f.client(), 1).Call(within(t, time.Minute), "pay", nil)
		require.ErrorIs(t, err, messages.ErrCommandFailed)
		require.ErrorIs(t, err, &messages.Error{Code: code})
		require.EqualValues(t, 1, ran.Load())
	}
}
