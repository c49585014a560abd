package postgres_test

import (
	"database/sql"
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/stores/postgres"
)

var update = flag.Bool("update", false, "write objects.txt anew from schema.sql")

// raw is a connection as any other program would have it.
func raw(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// objects.txt is what schema.sql makes, whatever the schema is called. After a change of schema.sql:
// go test -run ObjectsTxt -update ./stores/postgres, twice.
func TestSchema_ObjectsTxtIsWhatTheSchemaMakes(t *testing.T) {
	server, name := common.Database(t)
	for _, schema := range []string{postgres.DefaultSchema, "other_leases"} {
		s, err := postgres.Open(t.Context(), postgres.Config{DSN: server.DSN("", name), Schema: schema, Migrate: true})
		if !*update {
			require.NoError(t, err)
			require.NoError(t, s.Close())
			got, err := postgres.Describe(t.Context(), raw(t, server.DSN("", name)), schema)
			require.NoError(t, err)
			require.Equal(t, postgres.Objects(), got)
		}
	}
	if *update {
		lines, err := postgres.MadeBy(t.Context(), raw(t, server.DSN("", name)))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile("objects.txt", []byte(lines), 0o644))
	}
}
