package replica

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/leasehold/leasehold/drill/engine"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/planted"
)

// The drill's times (contract section I).
const (
	TTL           = 1500 * time.Millisecond
	Margin        = 400 * time.Millisecond
	RenewEvery    = 300 * time.Millisecond
	SnapshotEvery = 120 * time.Millisecond
	ImageTakes    = 40 * time.Millisecond // what the durable store takes for an image
)

// StoreNoCompareAndSet names a broken lease store: storetest.NoCompareAndSet.
const StoreNoCompareAndSet = "no-compare-and-set"

// Config is what a replica is started with. It travels as JSON in one argument.
type Config struct {
	Dir     string   `json:"dir"`  // of the run
	Node    string   `json:"node"` // "r1"; the same at every start
	Start   int      `json:"start"`
	Tenants []string `json:"tenants"` // keys
	Writers int      `json:"writers"` // per tenant
	// Pace is the pause between two writes of a writer, in ns.
	Pace time.Duration `json:"pace_ns"`
	Seed uint64        `json:"seed"`
	// Stores are where the leases and the durable copies are.
	Stores engine.Stores `json:"stores"`
	// Planted and LeaseStore switch a broken part in; empty: everything is as it should be.
	Planted    string `json:"planted,omitempty"`
	LeaseStore string `json:"lease_store,omitempty"`
}

// Parse reads a Config and checks it.
func Parse(data string) (Config, error) {
	var c Config
	if err := json.Unmarshal([]byte(data), &c); err != nil {
		return c, fmt.Errorf("the configuration of a replica: %w", err)
	}
	if _, err := c.keys(); err != nil {
		return c, err
	}
	if _, err := planted.Parse(c.Planted); err != nil {
		return c, err
	}
	if c.LeaseStore != "" && c.LeaseStore != StoreNoCompareAndSet {
		return c, fmt.Errorf("unknown lease store %q", c.LeaseStore)
	}
	if c.Dir == "" || c.Node == "" || c.Start < 1 || c.Writers < 1 || c.Pace < 0 || len(c.Tenants) == 0 {
		return c, fmt.Errorf("the configuration of a replica is not complete: %+v", c)
	}
	return c, c.Stores.Validate()
}

// Proc names this start of the replica: "r1.3".
func (c Config) Proc() string { return fmt.Sprintf("%s.%d", c.Node, c.Start) }

func (c Config) keys() ([]messages.Key, error) {
	var keys []messages.Key
	for _, s := range c.Tenants {
		key, err := messages.ParseKey(s)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// The layout of a run's directory.

// RecordPath is the record of one process.
func RecordPath(dir, proc string) string { return filepath.Join(RecordDir(dir), proc+".jsonl") }

// RecordDir holds the records of all processes.
func RecordDir(dir string) string { return filepath.Join(dir, "records") }

// LeasePath is the lease file that all replicas share, unless the leases are on a server.
func LeasePath(dir string) string { return filepath.Join(dir, "leases.db") }

// TrailsPath holds the audit trails that were on a server, once the run has ended.
func TrailsPath(dir string) string { return filepath.Join(dir, "trails.json") }

// ServersDir holds what the drill's own servers keep.
func ServersDir(dir string) string { return filepath.Join(dir, "servers") }

// DurableDir is the durable store that all replicas share. If that is on a server, it holds what was there
// when the run ended.
func DurableDir(dir string) string { return filepath.Join(dir, "durable") }

// ArchiveDir holds every object that was deleted, under its name. Nothing is ever restored from it.
func ArchiveDir(dir string) string { return filepath.Join(dir, "archive") }

// StateRoot is the local folder of one node.
func StateRoot(dir, node string) string { return filepath.Join(dir, "state", node) }

// LogPath is the standard error of one process.
func LogPath(dir, proc string) string { return filepath.Join(dir, "logs", proc+".log") }
