package ledgeractor

import (
	"context"
	"database/sql/driver"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"strconv"

	"github.com/mattn/go-sqlite3"
)

// busyTimeoutMS is how long SQLite waits for a lock. Nobody else opens the file, so a wait means
// that something is wrong; it must stay well below any deadline.
const busyTimeoutMS = "1000"

// dsn returns the driver's name of a file; params are the driver's and SQLite's URI parameters.
func dsn(path string, params map[string]string) string {
	q := url.Values{}
	for k, v := range params {
		q.Set(k, v)
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}).String()
}

func openSQLite(path string, params map[string]string) (*sqlite3.SQLiteConn, error) {
	conn, err := (&sqlite3.SQLiteDriver{}).Open(dsn(path, params))
	if err != nil {
		return nil, err
	}
	return conn.(*sqlite3.SQLiteConn), nil
}

// openWriter opens the one connection that writes, and creates the file if it is absent.
func openWriter(ctx context.Context, cfg Config) (raw *sqlite3.SQLiteConn, err error) {
	fail := newFailures(cfg.Key, cfg.Path)
	// Created here and not by SQLite, so that it is never readable by others; SQLite gives its -wal
	// and -shm files the same permissions.
	file, err := os.OpenFile(cfg.Path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fail.storage("open the ledger", err)
	}
	if err := errors.Join(file.Chmod(0o600), file.Close()); err != nil {
		return nil, fail.storage("open the ledger", err)
	}
	if err := os.Remove(cutPath(cfg.Path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fail.storage("remove an unfinished copy", err)
	}
	raw, err = openSQLite(cfg.Path, map[string]string{
		"mode": "rw", "_busy_timeout": busyTimeoutMS, "_journal_mode": "WAL", "_synchronous": "NORMAL",
		"_foreign_keys": "1", "_cache_size": cacheSize(cfg), "_stmt_cache_size": "32",
	})
	if err != nil {
		return nil, fail.typed(err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fail.typed(err), closeQuietly(raw))
			raw = nil
		}
	}()
	for _, pragma := range []string{
		"PRAGMA trusted_schema = OFF", "PRAGMA wal_autocheckpoint = 1000", "PRAGMA journal_size_limit = 16777216",
	} {
		if _, err := raw.ExecContext(ctx, pragma, nil); err != nil {
			return raw, err
		}
	}
	mode := ""
	if err := eachRow(ctx, raw, "PRAGMA journal_mode", nil, func(row []driver.Value) error {
		mode, _ = row[0].(string)
		return nil
	}); err != nil {
		return raw, err
	}
	if mode != "wal" {
		return raw, fail.storage("run the ledger in WAL mode", errors.New("journal mode is "+mode))
	}
	raw.SetLimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
	raw.SetLimit(sqlite3.SQLITE_LIMIT_LENGTH, cfg.Limits.MaxValueBytes)
	return raw, nil
}

// openReader opens a connection that can only read.
func openReader(ctx context.Context, cfg Config) (*sqlite3.SQLiteConn, error) {
	raw, err := openSQLite(cfg.Path, map[string]string{
		"mode": "ro", "_busy_timeout": busyTimeoutMS, "_query_only": "1", "_cache_size": cacheSize(cfg), "_stmt_cache_size": "8",
	})
	if err != nil {
		return nil, err
	}
	// Not "PRAGMA trusted_schema = OFF": it would refuse our replacements of functions in views, and the authorizer refuses
	// every function there that is not harmless.
	raw.SetLimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
	raw.SetLimit(sqlite3.SQLITE_LIMIT_LENGTH, cfg.Limits.MaxValueBytes)
	raw.SetLimit(sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 200)
	raw.SetLimit(sqlite3.SQLITE_LIMIT_COMPOUND_SELECT, 100)
	if err := linearFunctions(raw, cfg.Limits.MaxValueBytes); err != nil {
		return nil, errors.Join(err, closeQuietly(raw))
	}
	return raw, nil
}

func cacheSize(cfg Config) string { return strconv.Itoa(-cfg.Limits.CacheKiB) }

// closeQuietly closes a connection after a failure, where its own error adds nothing.
func closeQuietly(raw *sqlite3.SQLiteConn) error {
	_ = raw.Close()
	return nil
}
