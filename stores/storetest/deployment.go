package storetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

func isDeploymentKeeper(store stores.LeaseStore, _ Clock) bool {
	_, ok := store.(stores.DeploymentKeeper)
	return ok
}

// checkDeployment is the lease store's part of line K1: one identity, given once, the same for everybody. A store that has
// one already keeps it.
func checkDeployment(l *leases) {
	keeper := l.LeaseStore.(stores.DeploymentKeeper)
	had, err := keeper.Deployment(l.ctx)
	l.ok(err, "read of the identity")
	for _, bad := range []string{"", "two words", "a/b", "a\n", "ä", strings.Repeat("a", stores.MaxDeploymentBytes+1)} {
		_, err := keeper.SetDeployment(l.ctx, bad)
		l.code(err, messages.CodeOutOfRange, fmt.Sprintf("the identity %.20q", bad))
	}
	const contenders = 16
	var wg sync.WaitGroup
	offered, told, errs := make([]string, contenders), make([]string, contenders), make([]error, contenders)
	for i := range contenders {
		offered[i] = fmt.Sprintf("%s.%d", rand.Text(), i)
		wg.Go(func() { told[i], errs[i] = keeper.SetDeployment(l.ctx, offered[i]) })
	}
	wg.Wait()
	l.ok(errors.Join(errs...), "an identity from sixteen contenders")
	got, err := keeper.Deployment(l.ctx)
	l.ok(err, "read of the identity")
	switch {
	case had != "" && got != had:
		l.errorf("the identity was %q and is %q", had, got)
	case had == "" && !slices.Contains(offered, got):
		l.errorf("the identity is %q, which nobody has offered", got)
	}
	for _, t := range told {
		if t != got {
			l.errorf("a contender was told %q, the identity is %q", t, got)
		}
	}
	long := rand.Text() + "." + strings.Repeat("a-Z.9", 20)
	if again, err := keeper.SetDeployment(l.ctx, long); err != nil || again != got {
		l.errorf("another identity was answered %q, %v; want %q", again, err, got)
	}
}

// ForgetsItsDeployment is a lease store, in front of a real one, that takes the identity of whoever came last. It fails the
// check K1.
func ForgetsItsDeployment(real stores.LeaseStore) stores.LeaseStore {
	return &forgetsItsDeployment{LeaseStore: real}
}

type forgetsItsDeployment struct {
	stores.LeaseStore
	mu       sync.Mutex
	identity string
}

func (s *forgetsItsDeployment) Deployment(context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.identity, nil
}

func (s *forgetsItsDeployment) SetDeployment(_ context.Context, identity string) (string, error) {
	if err := stores.ValidateDeployment(identity); err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.identity = identity
	return identity, nil
}
