package docs

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/cmd/node/storeurl/engines"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores/mysql"
	"github.com/leasehold/leasehold/stores/postgres"
)

// The statements that operations.md tells an administrator to run are those of the packages.
func TestOperations_NamesTheRightsOfANode(t *testing.T) {
	doc := read(t, "docs/operations.md")
	const account, host = "leasehold_node", "10.0.0.%"
	for _, statement := range append(postgres.Grants("", account), mysql.Grants("leases", account, host)...) {
		require.Contains(t, doc, statement)
	}
	granted := len(postgres.Grants("", account)) + len(mysql.Grants("leases", account, host))
	require.Equal(t, granted, strings.Count(doc, "`GRANT "), "a statement that is not needed")
}

// Every parameter of a store's URL stands in operations.md. The store itself says what it has.
func TestOperations_NamesEveryParameterOfAStore(t *testing.T) {
	doc := read(t, "docs/operations.md")
	schemes := engines.Schemes()
	for store, refusal := range map[string]error{
		"mysql":          schemes.CheckLeases("mysql://u@h/d?no_such=1"),
		"nats, leases":   schemes.CheckLeases("nats://h?sync=always&no_such=1"),
		"nats, copies":   schemes.CheckDurable("nats://h?sync=always&no_such=1"),
		"s3":             schemes.CheckLeases("s3://b?no_such=1"),
		"postgres, ours": schemes.CheckLeases("postgres://h/d?max_conns=0"),
	} {
		require.ErrorIs(t, refusal, messages.ErrInvalidArgument, store)
		_, list, found := strings.Cut(messages.AsError(refusal).Message, " store has: ")
		if store == "postgres, ours" { // the server judges the others, so that there is no list
			list, found = "schema, max_conns, keep_renewals, password_file", true
		}
		require.True(t, found, "%s: %v", store, refusal)
		for _, name := range strings.Split(list, ", ") {
			require.Regexp(t, "`"+regexp.QuoteMeta(name)+"[`=]", doc, store)
		}
	}
	for scheme := range schemes.Leases {
		if scheme != "postgresql" { // another spelling
			require.Contains(t, doc, "`"+scheme+":")
		}
	}
}
