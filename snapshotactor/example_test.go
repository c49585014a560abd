package snapshotactor_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"path/filepath"

	_ "github.com/mattn/go-sqlite3"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/snapshotactor"
	"github.com/leasehold/leasehold/stores/dir"
)

// counter verifies that a file is a database with an events table. The ledger's own verifier looks
// at much more.
type counter struct{}

func (counter) Verify(ctx context.Context, path string, _ messages.Key) (events, lastSeq int64, err error) {
	db, err := sql.Open("sqlite3", "file:"+path+"?mode=ro")
	if err != nil {
		return 0, 0, err
	}
	defer db.Close()
	err = db.QueryRowContext(ctx, `SELECT count(*), coalesce(max(seq), 0) FROM events`).Scan(&events, &lastSeq)
	return events, lastSeq, err
}

// alwaysOpen is the fence of a holder that nobody competes with.
type alwaysOpen struct{}

func (alwaysOpen) Check() error { return nil }
func (alwaysOpen) Close(string) {}

// One node publishes a snapshot at epoch 1; another one begins with it at epoch 2.
func Example() {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	store, err := dir.Open(ctx, dir.Config{Root: filepath.Join(folder, "durable")})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	cfg := snapshotactor.Config{Store: store, Key: messages.Key{Org: "acme", Tenant: "t-3129611eac9be1d5994a2b216b06ed27"},
		Owner: "node-a", Fence: alwaysOpen{}, Verifier: counter{}, File: filepath.Join(folder, "ledger.db")}

	restored, err := snapshotactor.Open(ctx, cfg, snapshotactor.Grant{Epoch: 1})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("epoch 1 begins with", restored.From)
	db, err := sql.Open("sqlite3", cfg.File)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := db.Exec(`CREATE TABLE events (seq INTEGER PRIMARY KEY); INSERT INTO events VALUES (1), (2)`); err != nil {
		log.Fatal(err)
	}
	db.Close()
	image, err := os.ReadFile(cfg.File)
	if err != nil {
		log.Fatal(err)
	}
	publisher, err := snapshotactor.NewPublisher(cfg, restored)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := publisher.Publish(ctx, snapshotactor.Image{Bytes: image, Events: 2, LastSeq: 2}); err != nil {
		log.Fatal(err)
	}

	cfg.Owner, cfg.File = "node-b", filepath.Join(folder, "other.db")
	restored, err = snapshotactor.Open(ctx, cfg, snapshotactor.Grant{Epoch: 2, Marked: true})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("epoch 2 begins with", restored.From, "and", restored.Events, "events")
	// Output:
	// epoch 1 begins with empty
	// epoch 2 begins with e1/snap-1 and 2 events
}
