package verify_test

import (
	"fmt"

	"github.com/leasehold/leasehold/drill/verify"
)

// Found names the invariants that broke; each finding begins with the rule of the contract that it is about.
func ExampleVerdict_Found() {
	v := verify.Verdict{Invariants: []verify.Invariant{
		{Name: "I3"},
		{Name: "I4", Broken: []string{"S2 t1 e3: began with e1/snap-5, but its head is epoch 2, which began with e1/snap-4"}},
	}}
	fmt.Println(v.Found())
	// Output: [I4]
}
