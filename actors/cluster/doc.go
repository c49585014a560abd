// Package cluster makes nodes members of a cluster, so that a request that comes in anywhere reaches the
// owner of its tenant, and tenants move without loss when nodes come and go.
//
// [Join] a [actors.Node] to the cluster over a NATS connection. From then on
//
//   - app code outside the cluster reaches its tenants through any member (package client, Dial);
//   - app code inside uses [Member.Tenant], which has the same methods;
//   - [Member.Leave] hands every tenant to another member before the node shuts down.
//
// # Who decides
//
// Ownership is the lease's alone. The members, their heartbeats and the placement are soft state: they
// decide where a request is tried first, and which node should try to acquire a tenant that nobody serves.
// If they are wrong, or differ between members, the lease store refuses, and the request is sent to whom it
// names. Nobody is fenced or banned because he was not heard: he is a member again with his next heartbeat. While a
// member is cut off from NATS it keeps its last view, and goes on serving what it serves.
//
// # How a request finds its tenant
//
// A client sends it to the member that answered for the tenant last. If it knows none, it asks any member who that is:
// the owner in the lease store, or, if there is none that lives, the member with the highest rendezvous weight, which
// should become it. The member that gets the request carries it out if it serves the tenant, or can acquire it; if not,
// it refuses with CodeNotOwner and names whom to ask. Clients follow, and remember. Members never send requests on, so
// that no two of them wait for each other.
//
// # How a tenant moves
//
// The owner asks the next one whether it takes the tenant, and then hands off: it refuses new work as draining
// and names the next owner, finishes and saves what is in flight, and releases the lease. The next
// owner lets requests wait until it is told that it may acquire. Moves happen when a member joins or
// leaves, at a bounded pace.
package cluster
