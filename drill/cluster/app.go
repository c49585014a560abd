package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/leasehold/leasehold/cmd/node/daemon"
	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

// The commands of the drill's application. The first version knows notes, the second one signs them.
const (
	commandNote = "note"
	commandSign = "sign"
)

// AppFlag is what the arguments of a node begin with: the version of the application that it runs.
const AppFlag = "--app-version="

// note is the input of the commands. Key is the idempotency key of the event that tells of it.
type note struct {
	Key string `json:"key"`
}

// App returns the drill's application in a version, "1" or "2". The second one has a migration more, with which the first
// one can still work, and a command more.
func App(version string) (daemon.App, error) {
	n, err := strconv.Atoi(version)
	if err != nil || n < 1 || n > 2 {
		return daemon.App{}, fmt.Errorf("there is no version %q of the drill's application", version)
	}
	app := daemon.App{
		Migrations: []ledgeractor.Migration{{Version: 1, Name: "notes", SQL: "CREATE TABLE notes (id TEXT PRIMARY KEY) STRICT"}},
		Commands:   map[string]ledgeractor.Command{commandNote: takeNote("INSERT INTO notes (id) VALUES (?)")},
	}
	if n == 2 {
		app.Migrations = append(app.Migrations, ledgeractor.Migration{Version: 2, Name: "signed notes", SQL: "ALTER TABLE notes ADD COLUMN author TEXT", CompatibleSince: 1})
		app.Commands[commandSign] = takeNote("INSERT INTO notes (id, author) VALUES (?, 'drill')")
	}
	return app, nil
}

func takeNote(statement string) ledgeractor.Command {
	return func(ctx context.Context, tx *ledgeractor.Tx, in json.RawMessage) (any, error) {
		var n note
		if err := json.Unmarshal(in, &n); err != nil {
			return nil, err
		}
		if _, err := tx.ExecContext(ctx, statement, n.Key); err != nil {
			return nil, err
		}
		done, err := tx.Append(ctx, messages.Event{Kind: "drill.note", IdemKey: n.Key})
		return done.Seq, err
	}
}
