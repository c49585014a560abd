package nats

// Permissions returns the subjects that a client of a cluster must be allowed to publish to, and needs no
// others, for both stores. It must also be allowed to subscribe to its inboxes ("_INBOX.>", or a prefix
// of its own, see natsgo.CustomInboxPrefix). With a JetStream domain "$JS.API" becomes "$JS.<domain>.API".
//
// With these alone a node can neither delete a stream nor change its settings: who creates the streams may be an
// operator, and then STREAM.CREATE can be left out.
func Permissions(cluster string) []string {
	leases, objects := leaseNames(cluster), newObjectNames(cluster)
	subjects := []string{leases.all(), objects.prefix + ">"}
	for _, stream := range []string{leases.stream, objects.stream} {
		for _, op := range []string{"CREATE", "INFO", "MSG.GET"} {
			subjects = append(subjects, "$JS.API.STREAM."+op+"."+stream)
		}
	}
	return append(subjects, "$JS.API.STREAM.MSG.DELETE."+objects.stream, "$JS.API.STREAM.PURGE."+objects.stream)
}
