package api_test

import (
	"net/http"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
)

// Neither what only reads, nor what ends a tenant, creates one; in a cluster it is so whichever member is asked.
func TestQ2_ReadingCreatesNothing(t *testing.T) {
	nodes := append(startCluster(t, "a", "b"), newShared(t).start(t, "alone"))
	for i, s := range nodes {
		path := tenantNumber(i)
		for _, ask := range []struct{ method, path, body string }{
			{http.MethodGet, "", ""}, {http.MethodGet, "/events", ""}, {http.MethodPost, "/query", `{"sql":"SELECT 1"}`}, {http.MethodPost, "/commands/absent", `{}`},
			{http.MethodPost, "/snapshot", ""}, {http.MethodPost, "/handoff", ""}, {http.MethodPost, "/abandon", ""}, {http.MethodPost, "/forget", ""},
		} {
			refused(t, s.do(ask.method, path+ask.path, ask.body), 404, messages.CodeUnknownTenant)
		}
		for _, made := range []string{filepath.Join(s.root, "*", "orgs", "acme", "tenants"), filepath.Join(s.root, "durable", "acme")} {
			found, err := filepath.Glob(filepath.Join(made, filepath.Base(path)))
			require.NoError(t, err)
			require.Empty(t, found, "neither folder nor object")
		}
		require.EqualValues(t, 1, into[appended](t, s.post(path+"/events", `{"kind":"a"}`), 200).Epoch, "the first grant")
	}
}
