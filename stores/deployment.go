package stores

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/leasehold/leasehold/messages"
)

// A lease store and a durable store belong together: epochs that the one grants are folders in the other. A node that
// is pointed at two that do not would serve tenants from nothing, beside another one that serves them. So both carry
// the same identity, that of the deployment, and every start compares.
//
// Nothing can be written into both at once, so it is made in three steps, each of which exactly one of any number of
// first starts takes, and each of which a later start completes:
//
//  1. the durable store is offered, under a random name (DeploymentOffer);
//  2. the lease store gets its identity: that name, and a random one of its own;
//  3. the durable store gets the same (DeploymentObject): it is taken.
//
// After the second step the lease store belongs to no other durable store, and after the third the durable store to no
// other lease store. Two steps would not do: two new lease stores could both complete what each finds half made.

// The objects of the durable store that bind it. No tenant's key, and no prefix of one, begins like them: an
// organization has no dot in its name. So no list, sweep or forget of a tenant ever meets them.
const (
	DeploymentObject = "deployment.json"
	DeploymentOffer  = "deployment-offer.json"
)

// DeploymentKeeper is what a LeaseStore implements to carry the identity of its deployment. A node that finds it
// implemented refuses to start on two stores that do not belong together, and notices when one of them is replaced while it
// runs; without it the node says in its log that it cannot, and whoever runs it has to make sure.
type DeploymentKeeper interface {
	// Deployment returns the identity, "" if there is none yet. Once there is one, it is never another.
	Deployment(ctx context.Context) (identity string, err error)
	// SetDeployment gives the store an identity, durably, unless it has one, and returns the one that it then has: of
	// any number of calls, in any number of processes, one decides, and all are told the same. What
	// ValidateDeployment refuses is CodeOutOfRange.
	SetDeployment(ctx context.Context, identity string) (stored string, err error)
}

// MaxDeploymentBytes bounds an identity.
const MaxDeploymentBytes = 128

// ValidateDeployment returns an error with CodeOutOfRange unless identity has 1 to MaxDeploymentBytes of [A-Za-z0-9.-].
func ValidateDeployment(identity string) error {
	bad := strings.ContainsFunc(identity, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '-'
	})
	if identity == "" || len(identity) > MaxDeploymentBytes || bad {
		return &messages.Error{Code: messages.CodeOutOfRange,
			Message: fmt.Sprintf("the identity of a deployment has 1 to %d bytes of letters, digits, dots and hyphens", MaxDeploymentBytes)}
	}
	return nil
}

// Bind makes the two stores one deployment, or checks that they are, and returns its identity. It makes one only of two
// stores that are otherwise empty. The error is CodeDeploymentMismatch if they do not belong together, and names
// both; CodeCorrupt for an object that cannot be read; else that of a store. For a lease store that is no
// DeploymentKeeper it returns "" and does nothing.
func Bind(ctx context.Context, leases LeaseStore, durable DurableStore) (identity string, err error) {
	keeper, ok := leases.(DeploymentKeeper)
	if !ok {
		return "", nil
	}
	d := deployment{leases: leases, keeper: keeper, durable: durable}
	ofDurable, ofLeases, err := d.read(ctx)
	if err != nil || (ofDurable != "" && ofDurable == ofLeases) {
		return ofLeases, err
	}
	if ofDurable != "" {
		return "", d.mismatch(ofDurable, ofLeases, "")
	}
	offer, err := d.object(ctx, DeploymentOffer)
	if err != nil {
		return "", err
	}
	if offer == "" && ofLeases != "" || ofLeases != "" && !strings.HasPrefix(ofLeases, offer+".") {
		return "", d.mismatch("", ofLeases, "")
	}
	// Whatever is there already has been served under another identity, or under none.
	why, err := d.occupied(ctx)
	if err != nil {
		return "", err
	}
	if why != "" { // or another start has been faster, and serves already
		if ofDurable, ofLeases, err = d.read(ctx); err == nil && (ofDurable == "" || ofDurable != ofLeases) {
			err = d.mismatch(ofDurable, ofLeases, why)
		}
		return ofLeases, err
	}
	return d.make(ctx, offer, ofLeases)
}

// Rebind makes the durable store that of this lease store, whatever it was before: for an operator who has lost
// one of them and has put another one in its place, with no node running. A lease store without an identity gets one; a node
// that is still, or comes back, on the store that was lost is refused, or told by CheckDeployment. It returns the identity. The
// error is CodeInvalidArgument for a lease store that is no DeploymentKeeper.
func Rebind(ctx context.Context, leases LeaseStore, durable DurableStore) (identity string, err error) {
	keeper, ok := leases.(DeploymentKeeper)
	if !ok {
		return "", &messages.Error{Code: messages.CodeInvalidArgument, Message: "this lease store carries no identity of a deployment"}
	}
	d := deployment{leases: leases, keeper: keeper, durable: durable}
	ofDurable, ofLeases, err := d.read(ctx)
	if err != nil || (ofDurable != "" && ofDurable == ofLeases) {
		return ofLeases, err
	}
	offer, _, _ := strings.Cut(ofLeases, ".")
	if ofLeases == "" {
		if offer, err = d.object(ctx, DeploymentOffer); err != nil {
			return "", err
		}
	}
	for _, key := range []string{DeploymentObject, DeploymentOffer} {
		if _, err := durable.Delete(ctx, key); err != nil {
			return "", err
		}
	}
	if offer == "" {
		offer = rand.Text()
	}
	if _, err := d.put(ctx, DeploymentOffer, offer); err != nil {
		return "", err
	}
	return d.make(ctx, offer, ofLeases)
}

// CheckBound returns the error that Bind would have for stores that do not belong together, and writes nothing: for tools. Stores that
// are both empty pass.
func CheckBound(ctx context.Context, leases LeaseStore, durable DurableStore) error {
	keeper, ok := leases.(DeploymentKeeper)
	if !ok {
		return nil
	}
	d := deployment{leases: leases, keeper: keeper, durable: durable}
	ofDurable, ofLeases, err := d.read(ctx)
	if err != nil || ofDurable != "" && ofDurable == ofLeases {
		return err
	}
	if ofDurable != ofLeases {
		return d.mismatch(ofDurable, ofLeases, "")
	}
	why, err := d.occupied(ctx)
	if err == nil && why != "" {
		err = d.mismatch("", "", why)
	}
	return err
}

// CheckDeployment returns CodeDeploymentMismatch unless both stores still have the identity that Bind returned; else the
// error of a store that did not answer. For "" it does nothing.
func CheckDeployment(ctx context.Context, leases LeaseStore, durable DurableStore, identity string) error {
	keeper, ok := leases.(DeploymentKeeper)
	if !ok || identity == "" {
		return nil
	}
	d := deployment{leases: leases, keeper: keeper, durable: durable}
	ofDurable, ofLeases, err := d.read(ctx)
	if err == nil && (ofDurable != identity || ofLeases != identity) {
		err = d.mismatch(ofDurable, ofLeases, "this node runs in the deployment "+identity)
	}
	return err
}

// deployment is a pair of stores that may belong together.
type deployment struct {
	leases  LeaseStore
	keeper  DeploymentKeeper
	durable DurableStore
	// Where a store would be that does not exist; "": it does.
	noLeases, noDurable string
}

func (d deployment) read(ctx context.Context) (ofDurable, ofLeases string, err error) {
	if ofDurable, err = d.object(ctx, DeploymentObject); err != nil {
		return "", "", err
	}
	ofLeases, err = d.keeper.Deployment(ctx)
	return ofDurable, ofLeases, err
}

// make takes the steps that are missing. Where another start has been faster, the outcome is that one's.
func (d deployment) make(ctx context.Context, offer, ofLeases string) (string, error) {
	var err error
	if offer == "" {
		if offer, err = d.put(ctx, DeploymentOffer, rand.Text()); err != nil {
			return "", err
		}
	}
	if ofLeases == "" {
		if ofLeases, err = d.keeper.SetDeployment(ctx, offer+"."+rand.Text()); err != nil {
			return "", err
		}
	}
	ofDurable := ""
	if strings.HasPrefix(ofLeases, offer+".") {
		if ofDurable, err = d.put(ctx, DeploymentObject, ofLeases); err != nil {
			return "", err
		}
	}
	if ofDurable != ofLeases {
		return "", d.mismatch(ofDurable, ofLeases, "")
	}
	return ofLeases, nil
}

// document is what the objects hold.
type document struct {
	Version  int    `json:"version"`
	Identity string `json:"identity"`
}

// object returns the identity in an object, "" if there is none.
func (d deployment) object(ctx context.Context, key string) (string, error) {
	data, ok, err := d.durable.Get(ctx, key, messages.MaxSmallObjectBytes)
	if err != nil || !ok {
		return "", err
	}
	var doc document
	if err := json.Unmarshal(data, &doc); err != nil || doc.Version != 1 || ValidateDeployment(doc.Identity) != nil {
		return "", &messages.Error{Code: messages.CodeCorrupt, Object: key, Message: "the object does not hold the identity of a deployment", Err: err}
	}
	return doc.Identity, nil
}

// put creates an object, unless it is there, and returns the identity that it then holds.
func (d deployment) put(ctx context.Context, key, identity string) (string, error) {
	data, err := json.Marshal(document{Version: 1, Identity: identity})
	if err != nil {
		return "", err
	}
	created, err := d.durable.PutIfAbsent(ctx, key, append(data, '\n'))
	if err != nil || created {
		return identity, err
	}
	return d.object(ctx, key)
}

// occupied says which of the stores holds something of tenants; "": none does. A lease store that lists nothing is taken for empty.
func (d deployment) occupied(ctx context.Context) (why string, err error) {
	if why, err = d.records(ctx); err != nil || why != "" {
		return why, err
	}
	return d.objects(ctx)
}

func (d deployment) records(ctx context.Context) (why string, err error) {
	if lister, ok := d.leases.(LeaseLister); ok {
		if records, err := lister.Leases(ctx, "", 1); err != nil {
			return "", err
		} else if len(records) > 0 {
			return "the lease store holds records of leases", nil
		}
	}
	return "", nil
}

func (d deployment) objects(ctx context.Context) (why string, err error) {
	keys, err := d.durable.List(ctx, "")
	if err != nil {
		return "", err
	}
	keys = slices.DeleteFunc(keys, func(key string) bool { return key == DeploymentOffer || key == DeploymentObject })
	if len(keys) > 0 {
		return "the durable store holds objects, such as " + keys[0], nil
	}
	return "", nil
}

func (d deployment) mismatch(ofDurable, ofLeases, why string) error {
	say := func(store any, absent, identity string) string {
		switch {
		case absent != "":
			return "(" + absent + ") does not exist"
		case identity == "":
			return "(" + nameOf(store) + ") has no identity"
		}
		return "(" + nameOf(store) + ") is of the deployment " + identity
	}
	message := fmt.Sprintf("the lease store %s, the durable store %s", say(d.leases, d.noLeases, ofLeases), say(d.durable, d.noDurable, ofDurable))
	if why != "" {
		message += "; " + why
	}
	return &messages.Error{Code: messages.CodeDeploymentMismatch, Object: DeploymentObject, Message: message +
		": point the node at the two that belong together (is a file or folder missing, or not mounted?); if one of them is lost, see \"Stores that do not belong together\" in docs/operations.md"}
}

// nameOf returns what a store calls itself, without secrets, or its type.
func nameOf(store any) string {
	if s, ok := store.(fmt.Stringer); ok {
		return s.String()
	}
	return fmt.Sprintf("%T", store)
}
