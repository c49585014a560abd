package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"

	"github.com/mattn/go-sqlite3"

	"github.com/leasehold/leasehold/internal/localfile/sqlitefile"
	"github.com/leasehold/leasehold/messages"
)

// errBadConn makes database/sql throw a connection away.
var errBadConn = driver.ErrBadConn

func errClosed() error {
	return &messages.Error{Code: messages.CodeClosed, Message: "the lease store is closed"}
}

// contextError is CodeUnavailable, because the operation may take effect, with the end of the context
// as its Cause: errors.Is(err, context.DeadlineExceeded) works.
func contextError(ctx context.Context) error {
	err := context.Cause(ctx)
	return &messages.Error{Code: messages.CodeUnavailable, Cause: messages.CodeOf(ctx.Err()), Message: "the lease store did not answer in time", Err: err}
}

// storeError types an error of SQLite. A full or failing disk is CodeUnavailable (Cause CodeStorage):
// for a holder it is a store that does not answer, and the operation may yet be in the file.
func storeError(path string, err error) error {
	var typed *messages.Error
	if err == nil || errors.As(err, &typed) {
		return err
	}
	var e sqlite3.Error
	if !errors.As(err, &e) {
		return &messages.Error{Code: messages.CodeUnavailable, Message: "the lease store failed", Err: err}
	}
	switch e.Code {
	case sqlite3.ErrNotADB, sqlite3.ErrCorrupt:
		return &messages.Error{Code: messages.CodeCorrupt, Message: "the lease file is damaged", Err: err}
	case sqlite3.ErrFull, sqlite3.ErrIoErr, sqlite3.ErrCantOpen, sqlite3.ErrReadonly, sqlite3.ErrPerm, sqlite3.ErrNomem:
		return &messages.Error{Code: messages.CodeUnavailable, Cause: messages.CodeStorage, Message: "the lease file cannot be used: " + cmp.Or(sqlitefile.Cause(e, path), e.Code.Error()), Err: err}
	case sqlite3.ErrConstraint:
		return &messages.Error{Code: messages.CodeInternal, Message: "the lease file refused a change that breaks its rules", Err: err}
	}
	return &messages.Error{Code: messages.CodeUnavailable, Message: "the lease store failed", Err: err}
}

// openError is storeError for Open, where nothing has been promised yet: a disk that fails is
// CodeStorage.
func openError(path string, err error) error {
	err = storeError(path, err)
	var typed *messages.Error
	if errors.As(err, &typed) {
		if typed.Cause == messages.CodeStorage {
			typed.Code, typed.Cause = messages.CodeStorage, ""
		}
		if typed.Object == "" {
			typed.Object = path
		}
	}
	return err
}
