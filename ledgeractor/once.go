package ledgeractor

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql/driver"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/mattn/go-sqlite3"

	"github.com/leasehold/leasehold/messages"
)

// call is what a request has that runs a command.
type call struct {
	name            string // of the command
	key             string // the idempotency key; "": none
	command, digest string // what tells the same call from another one with its key; "" without a key

	output   json.RawMessage
	repeated bool // the output is that of an earlier call
}

// CallOnce is Call for callers who may have to ask again: a command that was acknowledged under an
// idempotency key never runs a second time. The first call that succeeds stores its output with its
// work, in one transaction; every later call with that key returns the same bytes, and duplicate. A
// call that failed stored nothing, and may be repeated with its key.
//
// The key belongs to one command with one input, compared as JSON values (empty input and null are the
// same). With any other it is CodeIdempotencyConflict, and nothing is done. messages.ValidateIdemKey says what
// can be a key. Keys of commands and of events do not meet. An empty key makes it Call.
//
// Keys are kept as long as the ledger, outputs too: they should be small.
func (h *Handle) CallOnce(ctx context.Context, name, idemKey string, in json.RawMessage) (output json.RawMessage, duplicate bool, err error) {
	command := h.cfg.Commands[name]
	unknown := &messages.Error{Code: messages.CodeNotFound, Key: h.cfg.Key.String(), Message: "no such command"}
	switch {
	case command == nil && idemKey == "":
		return nil, false, unknown
	case len(in) > h.cfg.Limits.MaxInputBytes:
		return nil, false, tooLarge(fmt.Sprintf("the input of a command is over the limit of %d bytes", h.cfg.Limits.MaxInputBytes))
	case len(in) == 0:
		in = json.RawMessage("null")
	}
	if err := messages.ValidateJSON("input", in); err != nil {
		return nil, false, err
	}
	if err := messages.ValidateIdemKey(idemKey); err != nil {
		return nil, false, err
	}
	in = bytes.Clone(in) // the command may still run when the caller has gone
	ctx, cancel := h.deadline(ctx)
	defer cancel()
	c := &call{name: name, key: idemKey}
	if idemKey != "" {
		sum := sha256.Sum256(messages.CanonicalJSON(in))
		c.command, c.digest = name, hex.EncodeToString(sum[:])
	}
	r := &request{ask: newAsk(ctx), call: c}
	r.code = func(tx *Tx) error {
		if command == nil {
			return unknown // and was not known by this name when the key was used, or this would not run
		}
		value, err := command(tx.Context(), tx, in)
		if err != nil {
			return err
		}
		text, err := json.Marshal(value)
		if err != nil {
			return fmt.Errorf("encode the output of the command: %w", err)
		}
		if !utf8.Valid(text) {
			return errors.New("the output of the command is not valid UTF-8")
		}
		if len(text) > h.cfg.Limits.MaxOutputBytes {
			return tooLarge(fmt.Sprintf("the output of a command is over the limit of %d bytes", h.cfg.Limits.MaxOutputBytes))
		}
		c.output = text
		return nil
	}
	if err := h.write(ctx, r); err != nil {
		return nil, false, err
	}
	return c.output, c.repeated, nil
}

// runMember runs the code of a member, unless its idempotency key says that it has run already; then
// it takes the output from there. The caller has set a savepoint, and undoes it if an error comes back.
func (g *guard) runMember(r *request, shared bool) (stored, last int64, err error) {
	keyed := r.call != nil && r.call.key != ""
	if keyed {
		if err := g.recallOutput(r.call); err != nil || r.call.repeated {
			return 0, 0, err
		}
	}
	tx, err := g.runCode(r.ctx, shared, r.code)
	if err != nil {
		if r.call != nil {
			g.noteFailure(r.call.name, err)
		}
		return 0, 0, err
	}
	if keyed {
		err = g.rememberOutput(r.call)
	}
	return tx.appended, tx.last, err
}

// recallOutput looks the key of a call up, and takes the output that is there. What the open transaction
// holds counts: the members of a batch stand or fall together.
func (g *guard) recallOutput(c *call) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.own = true
	defer func() { g.own = false }()
	const text = "SELECT command, input_sha256, output FROM main.leasehold_commands WHERE tenant_id = ? AND idem_key = ?"
	if err := g.prepareOwn(&g.recall, text); err != nil {
		return err
	}
	rows, err := storedRows(g.recall.QueryContext(context.Background(), named([]driver.Value{string(g.cfg.Key.Tenant), c.key})))
	if err != nil {
		return g.failed(err)
	}
	var row [3]driver.Value
	err = rows.Next(row[:])
	_ = rows.Close() // resets the statement; a failure was err already
	if err == io.EOF {
		return nil
	}
	if err != nil {
		return g.failed(err)
	}
	stored, _ := row[2].(string)
	if row[0] != c.command || row[1] != c.digest {
		return conflict(g.fail.key, "something else: another command, or another input")
	}
	c.output, c.repeated = json.RawMessage(stored), true
	return nil
}

// rememberOutput stores the output of a command that has run, under its key.
func (g *guard) rememberOutput(c *call) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lost != nil {
		// Outside of the transaction the output would stand, although the work does not.
		return g.rolledBack()
	}
	g.own = true
	defer func() { g.own = false }()
	const text = "INSERT INTO main.leasehold_commands (tenant_id, ts, idem_key, command, input_sha256, output) VALUES (?, ?, ?, ?, ?, ?)"
	if err := g.prepareOwn(&g.remember, text); err != nil {
		return err
	}
	_, err := g.remember.ExecContext(context.Background(), named([]driver.Value{
		string(g.cfg.Key.Tenant), g.cfg.Now().UTC().Format(messages.TimeLayout), c.key, c.command, c.digest, string(c.output)}))
	if err != nil {
		return g.failed(err)
	}
	g.wrote = true
	g.bytes += int64(len(c.output))
	return nil
}

// prepareOwn prepares a statement of ours when it is first needed: most ledgers never see a key of a
// command, and a prepared statement is memory. Under the lock, with our rights; see newGuard.
func (g *guard) prepareOwn(to **sqlite3.SQLiteStmt, text string) error {
	if *to != nil {
		return nil
	}
	stmt, err := g.raw.Prepare(text)
	if err != nil {
		return g.failed(err)
	}
	*to = stmt.(*sqlite3.SQLiteStmt)
	return nil
}

// countForeignCommands counts the rows of leasehold_commands that are another tenant's.
func countForeignCommands(ctx context.Context, raw *sqlite3.SQLiteConn, key messages.Key) (n int64, err error) {
	const query = "SELECT count(*) FROM main.leasehold_commands WHERE tenant_id <> ?"
	err = eachRow(ctx, raw, query, named([]driver.Value{string(key.Tenant)}), func(row []driver.Value) error {
		n, _ = row[0].(int64)
		return nil
	})
	return n, err
}
