package storetest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

// contenderEnv tells a test binary that it was started again as a contender of Race; its value is the
// target.
const contenderEnv = "LEASEHOLD_STORETEST_CONTENDER"

// Opener opens the store that a target names (a path, an address, …) in a process of its own.
type Opener func(ctx context.Context, target string) (store stores.LeaseStore, closeStore func() error, err error)

// RaceConfig configures Race.
type RaceConfig struct {
	// Target is what the Opener of each contender is given.
	Target string
	// Store is the same store, opened by the test, which looks at the outcome.
	Store stores.LeaseStore
	// Processes is the number of contenders; 0: six.
	Processes int
	// TTL of the leases; 0: 5 s. All contenders must get their answer within it.
	TTL time.Duration
}

// order is what the test tells a contender, and verdict what it answers: one line of JSON each.
type order struct {
	Key   messages.Key  `json:"key"`
	Owner string        `json:"owner"`
	TTL   time.Duration `json:"ttl_ns"`
	At    time.Time     `json:"at"`
	// Identity, if not empty, is given to the store in place of an acquire.
	Identity string `json:"identity,omitempty"`
}

type verdict struct {
	Ready bool            `json:"ready,omitempty"`
	Lease *messages.Lease `json:"lease,omitempty"`
	Err   *messages.Error `json:"err,omitempty"`

	Identity string `json:"identity,omitempty"`
}

// Contend makes this process a contender if Race started it as one, and then never returns. Otherwise
// it does nothing. Call it first in TestMain of every package that calls Race.
func Contend(open Opener) {
	target, ok := os.LookupEnv(contenderEnv)
	if !ok {
		return
	}
	if err := contend(context.Background(), open, target, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "contender:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func contend(ctx context.Context, open Opener, target string, in io.Reader, out io.Writer) error {
	store, closeStore, err := open(ctx, target)
	if err != nil {
		return err
	}
	answers, orders := json.NewEncoder(out), json.NewDecoder(in)
	if err := answers.Encode(verdict{Ready: true}); err != nil {
		return err
	}
	for {
		var o order
		if err := orders.Decode(&o); errors.Is(err, io.EOF) {
			return closeStore()
		} else if err != nil {
			return errors.Join(err, closeStore())
		}
		if err := wait(ctx, time.Until(o.At), nil); err != nil {
			return err
		}
		var v verdict
		if o.Identity != "" {
			if keeper, ok := store.(stores.DeploymentKeeper); ok {
				v.Identity, err = keeper.SetDeployment(ctx, o.Identity)
				v.Err = messages.AsError(err)
			}
		} else if lease, err := store.Acquire(ctx, o.Key, o.Owner, o.TTL); err != nil {
			v.Err = messages.AsError(err)
		} else {
			v.Lease = &lease
		}
		if err := answers.Encode(v); err != nil {
			return err
		}
	}
}

// Race is section E of the contract, for any binding: six OS processes acquire one fresh key at the
// same instant (E1), and the same key again when the lease has expired, in real time (E2). One is
// granted, with epoch 1 and then 2; all others are told who holds it; the trail has one entry for each
// round. A stores.DeploymentKeeper is also given an identity by all of them at once (K1). The processes are this test binary, started again: TestMain must call Contend.
func Race(t *testing.T, cfg RaceConfig) {
	if cfg.Processes == 0 {
		cfg.Processes = 6
	}
	if cfg.TTL == 0 {
		cfg.TTL = 5 * time.Second
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	contenders := make([]*contender, cfg.Processes)
	for i := range contenders {
		contenders[i] = startContender(t, cfg.Target)
	}
	for i, c := range contenders {
		if v, err := c.answer(); err != nil || !v.Ready {
			t.Fatalf("contender %d did not start: %v", i, err)
		}
	}
	key := NewKey()
	var lease messages.Lease
	t.Run("E1_one_of_six_processes_is_granted", func(t *testing.T) {
		lease = raceRound(ctx, t, cfg, contenders, key, 1)
	})
	if t.Failed() {
		return
	}
	t.Run("E2_and_again_after_a_real_expiry", func(t *testing.T) {
		for _, f := range guard("E2", "expiry", func(c *check) {
			(&leases{check: c, ctx: ctx, LeaseStore: cfg.Store, clock: RealTime{}}).expire(lease)
		}) {
			t.Fatalf("%s", f)
		}
		raceRound(ctx, t, cfg, contenders, key, 2)
	})
	if keeper, ok := cfg.Store.(stores.DeploymentKeeper); ok {
		t.Run("K1_one_identity_from_six_processes", func(t *testing.T) { raceDeployment(ctx, t, keeper, contenders) })
	}
}

// raceDeployment lets all contenders give the store an identity at once: all are told the same.
func raceDeployment(ctx context.Context, t *testing.T, keeper stores.DeploymentKeeper, contenders []*contender) {
	at := time.Now().Add(30 * time.Millisecond)
	for i, c := range contenders {
		if err := c.orders.Encode(order{At: at, Identity: fmt.Sprintf("contender.%d", i)}); err != nil {
			t.Fatalf("order to contender %d: %v", i, err)
		}
	}
	told := map[string]int{}
	for i, c := range contenders {
		v, err := c.answer()
		if err != nil || v.Err != nil {
			t.Fatalf("contender %d: %v, %v", i, err, v.Err)
		}
		told[v.Identity]++
	}
	identity, err := keeper.Deployment(ctx)
	if err != nil || identity == "" || told[identity] != len(contenders) {
		t.Fatalf("the identity is %q (%v), the processes were told %v", identity, err, told)
	}
}

// raceRound lets all contenders go at once and looks at what each was told.
func raceRound(ctx context.Context, t *testing.T, cfg RaceConfig, contenders []*contender, key messages.Key, epoch uint64) messages.Lease {
	// Long enough for every process to have read its order and to wait for the instant.
	at := time.Now().Add(30 * time.Millisecond)
	for i, c := range contenders {
		if err := c.orders.Encode(order{Key: key, Owner: fmt.Sprintf("contender-%d", i), TTL: cfg.TTL, At: at}); err != nil {
			t.Fatalf("order to contender %d: %v", i, err)
		}
	}
	var granted []messages.Lease
	var refused []*messages.Error
	for i, c := range contenders {
		v, err := c.answer()
		switch {
		case err != nil:
			t.Fatalf("contender %d: %v", i, err)
		case v.Lease != nil:
			granted = append(granted, *v.Lease)
		case v.Err != nil:
			refused = append(refused, v.Err)
		}
	}
	if len(granted) != 1 || len(refused) != len(contenders)-1 {
		t.Fatalf("%d processes were granted the lease, %d refused; want 1 and %d: %+v", len(granted), len(refused), len(contenders)-1, granted)
	}
	lease := granted[0]
	if lease.Epoch != epoch || lease.Key != key {
		t.Errorf("granted %+v, want epoch %d", lease, epoch)
	}
	for _, e := range refused {
		if e.Code != messages.CodeHeld || e.Owner != lease.Owner || e.Epoch != epoch {
			t.Errorf("refused with %v; want held by %s at epoch %d", e, lease.Owner, epoch)
		}
	}
	trail, err := cfg.Store.History(ctx, key)
	if err != nil || uint64(len(trail)) != epoch {
		t.Fatalf("the trail has %d entries, want %d (%v): %+v", len(trail), epoch, err, trail)
	}
	if last := trail[len(trail)-1]; last.Op != messages.OpAcquire || last.Owner != lease.Owner || last.Epoch != epoch {
		t.Errorf("the last entry of the trail is %+v, the granted lease %+v", last, lease)
	}
	return lease
}

type contender struct {
	orders  *json.Encoder
	answers *json.Decoder
}

func (c *contender) answer() (v verdict, err error) {
	err = c.answers.Decode(&v)
	return v, err
}

func startContender(t *testing.T, target string) *contender {
	// Not t.Context: it ends before the cleanup, in which a contender closes its store and ends by itself.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^$")
	// A race-enabled binary sleeps for a second when it exits, unless told otherwise.
	cmd.Env = append(os.Environ(), contenderEnv+"="+target, "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	cmd.Stderr = os.Stderr
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr, cmd.Start()); err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		defer cancel()
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("contender: %v", err)
		}
	})
	return &contender{orders: json.NewEncoder(in), answers: json.NewDecoder(bufio.NewReader(out))}
}
