package ledgeractor

import (
	"cmp"
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"

	"github.com/mattn/go-sqlite3"

	"github.com/leasehold/leasehold/internal/localfile"
	"github.com/leasehold/leasehold/internal/localfile/sqlitefile"
	"github.com/leasehold/leasehold/messages"
)

// failures turns what SQLite and the driver say into typed errors.
type failures struct {
	key  string
	path string // it stays at home: error documents leave the machine
	file string // its name without the folder
	// reading makes a statement that is refused by the authorizer CodeReadOnly.
	reading bool
	// corrupt is told when the database turned out to be corrupt. It may be called on any goroutine.
	corrupt func(error)
}

func newFailures(key messages.Key, path string) failures {
	return failures{key: key.String(), path: path, file: filepath.Base(path), corrupt: func(error) {}}
}

// typed returns err as it is if it is nil, io.EOF or typed already, else as a *messages.Error.
func (f failures) typed(err error) error {
	var typed *messages.Error
	var lite sqlite3.Error
	switch {
	case err == nil, err == io.EOF, errors.As(err, &typed):
		return err
	case errors.As(err, &lite):
		return f.fromSQLite(lite)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return messages.AsError(err)
	}
	// What is left are the driver's own complaints about arguments and their number.
	return &messages.Error{Code: messages.CodeSQL, Key: f.key, Message: "the statement and its arguments do not fit", Err: err}
}

func (f failures) fromSQLite(err sqlite3.Error) error {
	err.Code &= 0xff // a backup gives the extended code
	out := &messages.Error{Code: messages.CodeSQL, Key: f.key, Message: sqlMessage(err), Err: err}
	if strings.HasPrefix(err.Error(), "not authorized") { // SQLite has no code of its own for functions
		err.Code = sqlite3.ErrAuth
	}
	if err.Error() == errResultTooBig.Error() { // from one of our functions
		err.Code = sqlite3.ErrTooBig
	}
	switch err.Code {
	case sqlite3.ErrCorrupt, sqlite3.ErrNotADB:
		out.Code, out.Message, out.Object = messages.CodeCorrupt, "the local ledger is corrupt", f.file
		f.corrupt(out)
	case sqlite3.ErrReadonly:
		out.Code, out.Message = messages.CodeStorage, "the local disk is read-only"
		if f.reading {
			out.Code, out.Message = messages.CodeReadOnly, "only plain reads are allowed"
		}
	case sqlite3.ErrAuth:
		if out.Message = "the statement is not allowed here"; f.reading {
			out.Code, out.Message = messages.CodeReadOnly, "only plain reads are allowed"
		}
	case sqlite3.ErrFull:
		out.Code, out.Message = messages.CodeStorage, "the ledger cannot be written: "+sqlitefile.Cause(err, f.path)
	case sqlite3.ErrNomem:
		out.Code, out.Message = messages.CodeStorage, "the memory for SQLite is used up"
		if f.reading {
			out.Code, out.Message = messages.CodeTooLarge, "the read needs more memory than there is for SQLite"
		}
	case sqlite3.ErrIoErr, sqlite3.ErrCantOpen, sqlite3.ErrBusy, sqlite3.ErrLocked, sqlite3.ErrPerm,
		sqlite3.ErrProtocol, sqlite3.ErrNoLFS:
		out.Code, out.Message = messages.CodeStorage, "the ledger's file cannot be used: "+cmp.Or(sqlitefile.Cause(err, f.path), err.Code.Error())
	case sqlite3.ErrTooBig:
		out.Code, out.Message = messages.CodeTooLarge, "a value or a statement is over its limit"
	case sqlite3.ErrInterrupt:
		out.Code, out.Message = messages.CodeCanceled, "the statement was interrupted"
	case sqlite3.ErrMisuse:
		out.Code, out.Message = messages.CodeInternal, "the database driver was misused"
	}
	return out
}

// sqlMessage keeps of SQLite's text what cannot hold a piece of the statement or a value: what
// stands before the first colon or quote ("no such table", "UNIQUE constraint failed").
func sqlMessage(err sqlite3.Error) string {
	text := err.Error()
	if strings.HasPrefix(text, "near ") || strings.HasPrefix(text, "unrecognized token") {
		return "syntax error"
	}
	if i := strings.IndexAny(text, ":\"'`["); i >= 0 {
		text = strings.TrimSpace(text[:i])
	}
	if text == "" || len(text) > 80 {
		return err.Code.Error()
	}
	return text
}

// maxDetail bounds what a log says about one error, in bytes.
const maxDetail = 1 << 10

// detailOf returns what a log says about an error beside its code and its key: the message, and whatever is below.
func detailOf(err error) string {
	var text string
	for err != nil && len(text) < maxDetail {
		if text != "" {
			text += ": "
		}
		var typed *messages.Error
		if !errors.As(err, &typed) {
			text += err.Error()
			break
		}
		text += typed.Message
		err = typed.Err
	}
	return strings.ToValidUTF8(text[:min(len(text), maxDetail)], "")
}

// storage wraps a failure of the file system.
func (f failures) storage(doing string, err error) error {
	return &messages.Error{Code: messages.CodeStorage, Key: f.key, Object: f.file, Message: localfile.Because("cannot "+doing, err), Err: err}
}

func (f failures) broken(what string) error {
	return &messages.Error{Code: messages.CodeCorrupt, Key: f.key, Object: f.file, Message: what}
}

func closedError(key messages.Key) error {
	return &messages.Error{Code: messages.CodeClosed, Key: key.String(), Message: "the ledger is closed"}
}

// fencedError returns what a fence said, as an error with CodeFenced whatever it was.
func fencedError(key messages.Key, epoch uint64, err error) error {
	if err == nil || messages.CodeOf(err) == messages.CodeFenced {
		return err
	}
	return &messages.Error{Code: messages.CodeFenced, Key: key.String(), Epoch: epoch, Message: "the lease is not provably held", Err: err}
}
