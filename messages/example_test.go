package messages_test

import (
	"errors"
	"fmt"

	"github.com/leasehold/leasehold/messages"
)

func Example() {
	key := make([]byte, messages.MinKeyBytes) // of the organization, and secret
	id, err := messages.DeriveTenant(key, "https://idp.example/acme", "user-1")
	if err != nil {
		panic(err)
	}
	tenant, err := messages.NewKey("acme", id)
	if err != nil {
		panic(err)
	}
	fmt.Println(len(tenant.String()), tenant.ManifestName(1, 2)[len(tenant.Prefix()):])

	err = messages.Unknown(tenant, 1, messages.Fenced(tenant, 1, messages.ReasonExpiredLocally))
	fmt.Println(messages.CodeOf(err), errors.Is(err, messages.ErrFenced))
	// Output:
	// 39 e00000001/snap-000002.json
	// unknown_outcome true
}
