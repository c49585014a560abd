package replica

import (
	"context"
	"time"
)

// reachTry is how long one question of reach may take.
const reachTry = time.Second

// reach returns when both stores have answered: over the connections that the node itself uses, whatever has
// happened to those. It passes no gate, and asks until the process ends.
func (r *replica) reach() {
	<-r.opened
	key := r.keys[0]
	for _, ask := range []func(context.Context) error{
		func(ctx context.Context) error { _, _, err := r.leases.Read(ctx, key); return err },
		func(ctx context.Context) error { _, err := r.objects.List(ctx, key.EpochPrefix(1)); return err },
	} {
		for {
			ctx, cancel := context.WithTimeout(context.Background(), reachTry)
			err := ask(ctx)
			cancel()
			if err == nil {
				break
			}
			pause(context.Background(), afterRefusal)
		}
	}
}
