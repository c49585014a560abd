package main_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/cmd/node/admin"
	"github.com/leasehold/leasehold/cmd/node/storeurl"
	"github.com/leasehold/leasehold/internal/nodetest"
	"github.com/leasehold/leasehold/internal/powercut"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
)

// layout is where a node keeps what is durable, relative to a folder that was there before.
type layout struct{ root, leases, durable string }

func (l layout) args(folder string) []string {
	args := []string{"--state-root=" + filepath.Join(folder, l.root)}
	if l.leases != filepath.Join(l.root, "leases.db") {
		args = append(args, "--leases=sqlite:"+filepath.Join(folder, l.leases), "--durable=dir:"+filepath.Join(folder, l.durable))
	}
	return args
}

func (l layout) stores(folder string) admin.Common {
	var c admin.Common
	c.StateRoot = filepath.Join(folder, l.root)
	c.Leases, c.Durable = "sqlite:"+filepath.Join(folder, l.leases), "dir:"+filepath.Join(folder, l.durable)
	return c
}

// recorded starts a node whose syncs are recorded.
func recorded(t *testing.T, folder string, args ...string) (*process, *powercut.Recorder) {
	t.Helper()
	whole := command(t, append([]string{"run", "--listen=127.0.0.1:0"}, args...)...)
	cmd := exec.Command(whole.Path, whole.Args[1:]...) // the recorder ends and waits for it
	cmd.Env, cmd.Dir = whole.Env, whole.Dir
	p := &process{t: t, cmd: cmd, stderr: &nodetest.Log{}}
	cmd.Stderr = p.stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	rec := powercut.Record(t, cmd, folder)
	t.Cleanup(func() {
		require.NoError(t, rec.Kill())
		_, _ = io.Copy(io.Discard, out)
		require.NoError(t, errors.Join(out.Close(), cmd.Process.Release()))
		if t.Failed() {
			t.Logf("stderr:\n%s", p.stderr)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err, p.stderr)
	p.url = strings.TrimPrefix(strings.TrimSpace(line), "listening ")
	return p, rec
}

// promise is something that was acknowledged after these syncs.
type promise struct {
	what  string
	syncs int
	kept  func(ctx context.Context, c admin.Common, leases storeurl.LeaseStore, durable storeurl.DurableStore) error
}

// holds writes what a power cut leaves, opens the stores in it as a start does, and checks what was promised by then.
func holds(t *testing.T, rec *powercut.Recorder, l layout, syncs []powercut.Sync, promises []promise) (err error) {
	t.Helper()
	folder := t.TempDir()
	require.NoError(t, rec.Write(syncs, folder))
	c := l.stores(folder)
	schemes := storeurl.Embedded()
	leases, err := schemes.OpenLeases(t.Context(), c.Leases, storeurl.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, leases.Close()) }()
	durable, err := schemes.OpenDurable(t.Context(), c.Durable, storeurl.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, durable.Close()) }()
	// In the order of the promises, and before anything is made anew.
	for _, p := range promises {
		if err := p.kept(t.Context(), c, leases, durable); err != nil {
			return fmt.Errorf("%s: %w", p.what, err)
		}
	}
	if _, err = stores.Bind(t.Context(), leases, durable); err != nil {
		return fmt.Errorf("the next start: %w", err)
	}
	return nil
}

func granted(epoch uint64) func(context.Context, admin.Common, storeurl.LeaseStore, storeurl.DurableStore) error {
	return func(ctx context.Context, _ admin.Common, leases storeurl.LeaseStore, _ storeurl.DurableStore) error {
		lease, ok, err := leases.Read(ctx, messages.Key{Org: "acme", Tenant: tenantOne})
		if err == nil && (!ok || lease.Epoch < epoch || !lease.HasLineage()) {
			err = fmt.Errorf("the lease is %+v", lease)
		}
		return err
	}
}

func copied(t *testing.T, events int64) func(context.Context, admin.Common, storeurl.LeaseStore, storeurl.DurableStore) error {
	return func(ctx context.Context, c admin.Common, _ storeurl.LeaseStore, _ storeurl.DurableStore) error {
		var out strings.Builder
		c.JSON = true
		restore := admin.Restore{Common: c, Key: keyOne, To: filepath.Join(t.TempDir(), "copy.db")}
		err := restore.Run(ctx, &admin.Env{Stdout: &out, Stderr: io.Discard, Schemes: storeurl.Embedded()})
		if err != nil {
			return err
		}
		var got struct{ Manifest messages.Manifest }
		if err := json.Unmarshal([]byte(out.String()), &got); err != nil || got.Manifest.Events < events {
			return fmt.Errorf("restored %s, %w", out.String(), err)
		}
		return nil
	}
}

// kindOf names a sync: by its path, and those of the content of objects, which have no name yet, together.
func kindOf(s powercut.Sync) string {
	if before, _, ok := strings.Cut(s.Path, "/.tmp/"); ok {
		return before + "/(an object)"
	}
	return s.Path
}

// Q6: what was acknowledged survives a file system that forgets everything that was not synced, in a new state root too,
// at whatever moment the power is cut; and without any one of the syncs it would not.
func TestQ6_APowerCutTakesNothingBack(t *testing.T) {
	// Nothing that is promised depends on these: the ledgers' local files, which no start after a crash serves; and the journal in
	// which SQLite turns an empty lease file to WAL.
	spare := []string{"/orgs", "/disk.probe", "/leases.db-journal"}
	isSpare := func(l layout, path string) bool {
		if !strings.HasPrefix(l.leases, l.root) && strings.HasPrefix(l.root, path) {
			return true // a state root with nothing but those in it
		}
		return slices.ContainsFunc(spare, func(s string) bool { return strings.Contains("/"+path, s) })
	}
	for name, l := range map[string]layout{
		"everything in the state root": {"var/lib/node", "var/lib/node/leases.db", "var/lib/node/durable"},
		"stores of their own":          {"var/lib/node", "srv/shared/leases/leases.db", "mnt/copies/leasehold"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			p, rec := recorded(t, folder, append(l.args(folder), "--node-name=n", "--ttl=2s", "--snapshot-every=1h")...)
			var promises []promise
			done := func(what string, kept func(context.Context, admin.Common, storeurl.LeaseStore, storeurl.DurableStore) error) {
				promises = append(promises, promise{what, len(rec.Syncs()), kept})
			}
			var identity string
			done("the deployment", func(ctx context.Context, _ admin.Common, leases storeurl.LeaseStore, durable storeurl.DurableStore) error {
				if identity == "" {
					var err error
					if identity, err = leases.(stores.DeploymentKeeper).Deployment(ctx); err != nil || identity == "" {
						return fmt.Errorf("no identity: %w", err)
					}
				}
				return stores.CheckDeployment(ctx, leases, durable, identity)
			})
			require.Equal(t, 200, p.post(path(tenantOne)+"/events", `{"kind":"first"}`).status)
			done("the grant", granted(1))
			require.Equal(t, 200, p.post(path(tenantOne)+"/snapshot", "").status)
			done("the first copy", copied(t, 1))
			require.Equal(t, 200, p.post(path(tenantOne)+"/events", `{"kind":"second"}`).status)
			require.Equal(t, 204, p.post(path(tenantOne)+"/handoff", "").status)
			done("the handoff", copied(t, 2))
			require.Equal(t, 200, p.post(path(tenantOne)+"/events", `{"kind":"third"}`).status)
			done("the second grant", granted(2))
			require.Equal(t, 200, p.post(path(tenantOne)+"/snapshot", "").status)
			done("a copy at the next epoch", copied(t, 3))
			require.Equal(t, 200, p.post(path(tenantOne)+"/events", `{"kind":"unsaved"}`).status)
			require.NoError(t, rec.Kill())
			all := rec.Syncs()

			for n := range len(all) + 1 {
				var due []promise
				for _, p := range promises {
					if p.syncs <= n {
						due = append(due, p)
					}
				}
				require.NoError(t, holds(t, rec, l, all[:n], due), "after %d of %d syncs", n, len(all))
			}
			// broken returns the first promise that is broken where one kind of sync is left out.
			broken := func(path string) error {
				for i, p := range promises {
					left := slices.DeleteFunc(slices.Clone(all[:p.syncs]), func(s powercut.Sync) bool { return kindOf(s) == path })
					if err := holds(t, rec, l, left, promises[:i+1]); err != nil {
						return err
					}
				}
				return nil
			}
			var paths, found []string
			for _, s := range all {
				if path := kindOf(s); !slices.Contains(paths, path) {
					paths = append(paths, path)
				}
			}
			for _, path := range paths {
				err := broken(path)
				if err != nil {
					t.Logf("without the sync of %s: %.90v", path, err)
					found = append(found, path)
					continue
				}
				require.True(t, isSpare(l, path), "nothing is lost without the sync of %s", path)
			}
			t.Logf("%d syncs of %d files and folders, of which %d carry a promise", len(all), len(paths), len(found))

			after := t.TempDir()
			require.NoError(t, rec.Write(all, after))
			again := run(t, filepath.Join(after, l.root), append(l.args(after)[1:], "--node-name=n", "--ttl=2s")...)
			until(t, "the lease of the node that died has ended", func() bool { return again.get(path(tenantOne)+"/events").status == 200 })
			require.Equal(t, []string{"first", "second", "third"}, again.kinds(tenantOne))
			again.terminate()
		})
	}
}
