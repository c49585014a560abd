package sqlitefile_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mattn/go-sqlite3"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/localfile"
	"github.com/leasehold/leasehold/internal/localfile/sqlitefile"
)

// The limit is that of the SQLite that is built in, to the byte.
func TestQ7_WhatCheckPathTakesSQLiteOpens(t *testing.T) {
	create := func(path string) error {
		conn, err := (&sqlite3.SQLiteDriver{}).Open("file:" + path)
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.(*sqlite3.SQLiteConn).Exec("CREATE TABLE t (a)", nil)
		return err
	}
	folder := t.TempDir()
	for len(folder) < 400 {
		folder = filepath.Join(folder, strings.Repeat("f", 50))
	}
	require.NoError(t, os.MkdirAll(folder, 0o700))
	longest := filepath.Join(folder, strings.Repeat("d", 504-len(folder)-1))
	require.NoError(t, sqlitefile.CheckPath("the file", longest, ""))
	require.NoError(t, create(longest))
	require.ErrorContains(t, sqlitefile.CheckPath("the file", longest+"d", ""), "it has 505 bytes, and may have 504")
	err := create(longest + "d")
	var lite sqlite3.Error
	require.ErrorAs(t, err, &lite)
	require.Equal(t, localfile.PathTooLong, sqlitefile.Cause(lite, longest+"d"))
}
