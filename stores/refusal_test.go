package stores_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

func TestB5_OnlyTheHolderOfALiveLeaseIsOne(t *testing.T) {
	key := messages.Key{Org: "acme", Tenant: "t-3129611eac9be1d5994a2b216b06ed27"}
	lease := messages.Lease{Key: key, Owner: "a#1", Epoch: 3}
	require.NoError(t, stores.Holder(key, lease, false, "a#1", 3))
	for why, err := range map[string]error{
		stores.NeverGranted: stores.Holder(key, messages.Lease{}, true, "a#1", 3),
		stores.OtherEpoch:   stores.Holder(key, lease, true, "b#1", 2),
		stores.OtherOwner:   stores.Holder(key, lease, true, "b#1", 3),
		stores.LeaseOver:    stores.Holder(key, lease, true, "a#1", 3),
	} {
		require.ErrorIs(t, err, messages.ErrLost)
		require.Equal(t, why, messages.AsError(err).Message)
		require.Equal(t, key.String(), messages.AsError(err).Key)
	}
	require.Equal(t, "a#1", messages.AsError(stores.Holder(key, lease, true, "b#1", 3)).Owner, "who is in the record")
}

func TestB2_ARefusalNamesTheHolder(t *testing.T) {
	lease := messages.Lease{Key: messages.Key{Org: "acme", Tenant: "t-3129611eac9be1d5994a2b216b06ed27"}, Owner: "a#1", Epoch: 3}
	err := stores.Held(lease, time.Second)
	require.ErrorIs(t, err, messages.ErrHeld)
	e := messages.AsError(err)
	require.Equal(t, []any{"a#1", uint64(3), time.Second, lease}, []any{e.Owner, e.Epoch, e.RetryAfter, *e.Lease})
}

func TestRenewal_Validate(t *testing.T) {
	good := stores.Renewal{Key: messages.Key{Org: "acme", Tenant: "t-3129611eac9be1d5994a2b216b06ed27"}, Owner: "a#1", TTL: time.Second}
	require.NoError(t, good.Validate())
	bad := good
	bad.Key.Org = ".."
	require.ErrorIs(t, bad.Validate(), messages.ErrInvalidID)
	bad = good
	bad.Owner = ""
	require.ErrorIs(t, bad.Validate(), messages.ErrOutOfRange)
	bad = good
	bad.TTL = time.Millisecond
	require.ErrorIs(t, bad.Validate(), messages.ErrOutOfRange)
}
