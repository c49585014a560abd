package nats_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/stores/nats"
	"github.com/leasehold/leasehold/stores/storetest"
)

func openObjects(t testing.TB, cfg nats.Config) *nats.Objects {
	t.Helper()
	s, err := nats.OpenObjects(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func TestF_Conforms(t *testing.T) {
	on(t, func(t *testing.T, k kind) {
		storetest.DurableStore(t, openObjects(t, k.config(t)))
	})
}
