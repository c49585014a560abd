package mysql_test

import (
	"database/sql"
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/stores/mysql"
)

var update = flag.Bool("update", false, "write objects.txt anew from schema.sql")

// raw is a connection as any other program would have it.
func raw(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// objects.txt is what schema.sql makes. After a change of schema.sql:
// go test -run ObjectsTxt -update ./stores/mysql, twice.
func TestSchema_ObjectsTxtIsWhatTheSchemaMakes(t *testing.T) {
	server, name := common.Database(t)
	require.NoError(t, mysql.Make(t.Context(), server.DSN("", name)))
	got, err := mysql.Describe(t.Context(), raw(t, server.DSN("", name)))
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile("objects.txt", []byte(got), 0o644))
		return
	}
	require.Equal(t, mysql.Objects(), got)
}
