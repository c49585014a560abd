package ledgeractor

import (
	"context"
	"database/sql/driver"

	"github.com/mattn/go-sqlite3"
)

// guardStmt is a prepared statement. It belongs to the transaction that prepared it.
type guardStmt struct {
	g   *guard
	tx  *Tx
	raw *sqlite3.SQLiteStmt
}

var (
	_ driver.StmtExecContext  = (*guardStmt)(nil)
	_ driver.StmtQueryContext = (*guardStmt)(nil)
)

// NumInput implements driver.Stmt.
func (s *guardStmt) NumInput() int { return s.raw.NumInput() }

// ExecContext implements driver.StmtExecContext.
func (s *guardStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	args, err := storedArgs(args)
	if err != nil {
		return nil, err
	}
	s.g.mu.Lock()
	defer s.g.mu.Unlock()
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	write := !s.raw.Readonly()
	ctx, release := s.tx.statementContext(ctx, write)
	defer release()
	if write {
		s.g.writes("", args)
	}
	result, err := s.raw.ExecContext(ctx, args)
	return result, s.g.failed(err)
}

// QueryContext implements driver.StmtQueryContext.
func (s *guardStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	args, err := storedArgs(args)
	if err != nil {
		return nil, err
	}
	s.g.mu.Lock()
	defer s.g.mu.Unlock()
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	write := !s.raw.Readonly()
	ctx, release := s.tx.statementContext(ctx, write)
	if write {
		s.g.writes("", args)
	}
	raw, err := storedRows(s.raw.QueryContext(ctx, args))
	if err != nil {
		release()
		return nil, s.g.failed(err)
	}
	return s.g.newRows(s.tx, raw, release), nil
}

func (s *guardStmt) enter(ctx context.Context) error {
	s.g.auth.altering = false
	return s.g.enter(ctx, s.tx)
}

// Exec implements driver.Stmt.
func (s *guardStmt) Exec(args []driver.Value) (driver.Result, error) {
	return s.ExecContext(context.Background(), named(args))
}

// Query implements driver.Stmt.
func (s *guardStmt) Query(args []driver.Value) (driver.Rows, error) {
	return s.QueryContext(context.Background(), named(args))
}

// Close implements driver.Stmt. It works at any time, and more than once.
func (s *guardStmt) Close() error {
	s.g.mu.Lock()
	defer s.g.mu.Unlock()
	if _, open := s.g.open[s.raw]; !open {
		return nil
	}
	delete(s.g.open, s.raw)
	return s.g.failed(s.raw.Close())
}

// guardRows is an open iterator. It belongs to the transaction that opened it.
type guardRows struct {
	g       *guard
	tx      *Tx
	raw     *openRows
	columns []string
}

// openRows is what the guard closes when a transaction ends.
type openRows struct {
	driver.Rows
	release func()
}

// Close ends the statement and its context.
func (o *openRows) Close() error {
	o.release()
	return o.Rows.Close()
}

// newRows wraps an iterator, under the lock.
func (g *guard) newRows(tx *Tx, raw driver.Rows, release func()) driver.Rows {
	r := &guardRows{g: g, tx: tx, raw: &openRows{raw, release}, columns: raw.Columns()}
	g.open[r.raw] = struct{}{}
	return r
}

// Columns implements driver.Rows.
func (r *guardRows) Columns() []string { return r.columns }

// Next implements driver.Rows. Each step checks the fence.
func (r *guardRows) Next(dest []driver.Value) error {
	r.g.mu.Lock()
	defer r.g.mu.Unlock()
	if err := r.g.enter(r.tx.ctx, r.tx); err != nil {
		return err
	}
	return r.g.failed(r.raw.Next(dest))
}

// Close implements driver.Rows. It works at any time, and more than once.
func (r *guardRows) Close() error {
	r.g.mu.Lock()
	defer r.g.mu.Unlock()
	if _, open := r.g.open[r.raw]; !open {
		return nil
	}
	delete(r.g.open, r.raw)
	return r.g.failed(r.raw.Close())
}

// ColumnTypeDatabaseTypeName implements driver.RowsColumnTypeDatabaseTypeName: the declared type.
func (r *guardRows) ColumnTypeDatabaseTypeName(i int) string {
	r.g.mu.Lock()
	defer r.g.mu.Unlock()
	if _, open := r.g.open[r.raw]; !open {
		return ""
	}
	return r.raw.Rows.(*sqlite3.SQLiteRows).ColumnTypeDatabaseTypeName(i)
}

func named(args []driver.Value) []driver.NamedValue {
	out := make([]driver.NamedValue, len(args))
	for i, v := range args {
		out[i] = driver.NamedValue{Ordinal: i + 1, Value: v}
	}
	return out
}
