package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

// LeaseShow prints the record of one lease, or of all.
type LeaseShow struct {
	Common `embed:""`
	Key    string `arg:"" optional:"" help:"ORG/TENANT."`
}

const leasePage = 500

// Run implements the command. CodeNotFound: the tenant was never opened.
func (c *LeaseShow) Run(ctx context.Context, env *Env) (err error) {
	var key messages.Key
	if c.Key != "" {
		if key, err = messages.ParseKey(c.Key); err != nil {
			return err
		}
	}
	store, err := c.leases(ctx, env)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if c.Key != "" {
		lease, err := known(ctx, store, key)
		if err != nil {
			return err
		}
		return c.print(env, lease, func(w io.Writer) { leaseTable(w, lease) })
	}
	lister, ok := store.(stores.LeaseLister)
	if !ok {
		return &messages.Error{Code: messages.CodeInvalidArgument, Message: "this lease store cannot list its keys; name one"}
	}
	all := []messages.Lease{}
	for after := ""; ; {
		page, err := lister.Leases(ctx, after, leasePage)
		if err != nil {
			return err
		}
		all = append(all, page...)
		if len(page) < leasePage {
			break
		}
		after = page[len(page)-1].Key.String()
	}
	return c.print(env, all, func(w io.Writer) { leaseTable(w, all...) })
}

func leaseTable(w io.Writer, leases ...messages.Lease) {
	fmt.Fprintln(w, "KEY\tEPOCH\tFLOOR\tOWNER\tEND")
	for _, l := range leases {
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\n", l.Key, l.Epoch, l.Floor, l.Owner, stamp(l.End))
	}
}

// stamp prints a time of the store's clock.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// known reads a record that must be there.
func known(ctx context.Context, store stores.LeaseStore, key messages.Key) (messages.Lease, error) {
	lease, ok, err := store.Read(ctx, key)
	if err == nil && !ok {
		err = &messages.Error{Code: messages.CodeNotFound, Key: key.String(), Message: "the tenant was never opened"}
	}
	return lease, err
}

// LeaseHistory prints the audit trail of one lease.
type LeaseHistory struct {
	Common `embed:""`
	Key    string `arg:"" help:"ORG/TENANT."`
}

// Run implements the command. CodeNotFound: the tenant was never opened.
func (c *LeaseHistory) Run(ctx context.Context, env *Env) (err error) {
	key, err := messages.ParseKey(c.Key)
	if err != nil {
		return err
	}
	store, err := c.leases(ctx, env)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if _, err := known(ctx, store, key); err != nil {
		return err
	}
	entries, err := store.History(ctx, key)
	if err != nil {
		return err
	}
	return c.print(env, entries, func(w io.Writer) {
		fmt.Fprintln(w, "AT\tOP\tEPOCH\tFLOOR\tOWNER\tEND")
		for _, e := range entries {
			fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\t%s\n", stamp(e.At), e.Op, e.Epoch, e.Floor, e.Owner, stamp(e.End))
		}
	})
}
