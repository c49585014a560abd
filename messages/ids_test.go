package messages_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
)

var orgKey = bytes.Repeat([]byte{7}, 32)

func derive(t *testing.T, key []byte, issuer, subject string) messages.TenantID {
	t.Helper()
	id, err := messages.DeriveTenant(key, issuer, subject)
	require.NoError(t, err)
	require.NoError(t, id.Validate())
	return id
}

func TestA1_TheKnownAnswer(t *testing.T) {
	require.Equal(t, messages.TenantID("t-3129611eac9be1d5994a2b216b06ed27"), derive(t, orgKey, "https://idp.example/acme", "user-1"))
}

func TestA2_EveryPartChangesTheID(t *testing.T) {
	seen := map[messages.TenantID]string{}
	for name, id := range map[string]messages.TenantID{
		"as it is":           derive(t, orgKey, "ab", "c"),
		"another split":      derive(t, orgKey, "a", "bc"),
		"another key":        derive(t, bytes.Repeat([]byte{8}, 32), "ab", "c"),
		"a longer key":       derive(t, bytes.Repeat([]byte{7}, 33), "ab", "c"),
		"another issuer":     derive(t, orgKey, "aB", "c"),
		"another subject":    derive(t, orgKey, "ab", "d"),
		"the parts swapped":  derive(t, orgKey, "c", "ab"),
		"a trailing space":   derive(t, orgKey, "ab", "c "),
		"not normalized NFC": derive(t, orgKey, "ab", "c\u0301"),
		"normalized NFC":     derive(t, orgKey, "ab", "\u0107"),
	} {
		require.Empty(t, seen[id], "%s has the id of %s", name, seen[id])
		seen[id] = name
	}
}

func TestA3_IssuerSubjectAndKey(t *testing.T) {
	long := strings.Repeat("x", messages.MaxNameBytes)
	for _, ok := range []string{"x", long, "Ünïcödé", "😀", strings.Repeat("😀", 128), "\ufeff", "a\nb", " "} {
		derive(t, orgKey, ok, "s")
		derive(t, orgKey, "i", ok)
	}
	secret := "somebody@example.org"
	for name, bad := range map[string]string{
		"empty": "", "too long": long + "x", "too long in bytes": strings.Repeat("😀", 129), "NUL": secret + "\x00", "broken UTF-8": secret + "\xff",
		"half a surrogate pair": secret + "\xed\xa0\x80",
	} {
		t.Run(name, func(t *testing.T) {
			for _, parts := range [][2]string{{bad, "s"}, {"i", bad}} {
				id, err := messages.DeriveTenant(orgKey, parts[0], parts[1])
				require.ErrorIs(t, err, messages.ErrInvalidID)
				require.Empty(t, id)
				require.NotContains(t, err.Error(), secret, "personal data in an error")
			}
		})
	}
	for _, n := range []int{0, 1, 31} {
		_, err := messages.DeriveTenant(orgKey[:n], "i", "s")
		require.ErrorIs(t, err, messages.ErrInvalidID)
	}
}

// badTenants and badOrgs have every wrong shape that the contract names.
var (
	badTenants = []string{"", "t-", "t-3129611eac9be1d5994a2b216b06ed2", "t-3129611eac9be1d5994a2b216b06ed277", "t-3129611eac9be1d5994a2b216b06ed2g",
		"T-3129611eac9be1d5994a2b216b06ed27", "t-3129611EAC9be1d5994a2b216b06ed27", "3129611eac9be1d5994a2b216b06ed27", "t_3129611eac9be1d5994a2b216b06ed27",
		"t-3129611eac9be1d5994a2b216b06ed27\n", " t-3129611eac9be1d5994a2b216b06ed27", "t-../../../../../../../etc/passwd00", "t-3129611eac9be1d5994a2b216b06ed2\x00"}
	badOrgs = []string{"", "Acme", "-acme", "a_b", "a/b", "..", "a..b", ".", "a b", " a", "acme\n", strings.Repeat("a", 64), "é", "a\x00", "\xff", "a\\b", "a%2fb"}
)

func TestA4_TheShapesOfIDs(t *testing.T) {
	for _, org := range []messages.OrgID{"a", "0", "acme", "a-", "a--b", "9-lives", messages.OrgID(strings.Repeat("a", 63))} {
		require.NoError(t, org.Validate(), "%q", org)
	}
	for _, bad := range badOrgs {
		require.ErrorIs(t, messages.OrgID(bad).Validate(), messages.ErrInvalidID, "%q", bad)
	}
	require.NoError(t, messages.TenantID("t-3129611eac9be1d5994a2b216b06ed27").Validate())
	for _, bad := range badTenants {
		require.ErrorIs(t, messages.TenantID(bad).Validate(), messages.ErrInvalidID, "%q", bad)
	}
}

func TestA5_RootAndLeaseKey(t *testing.T) {
	state := t.TempDir()
	key, err := messages.NewKey("acme", derive(t, orgKey, "https://idp.example/acme", "user-1"))
	require.NoError(t, err)
	require.Equal(t, "acme/t-3129611eac9be1d5994a2b216b06ed27", key.String())
	parsed, err := messages.ParseKey(key.String())
	require.NoError(t, err)
	require.Equal(t, key, parsed)
	path, err := key.Root(state)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(state, "orgs", "acme", "tenants", "t-3129611eac9be1d5994a2b216b06ed27"), path)

	var bad []messages.Key
	for _, org := range badOrgs {
		bad = append(bad, messages.Key{Org: messages.OrgID(org), Tenant: key.Tenant})
	}
	for _, tenant := range badTenants {
		bad = append(bad, messages.Key{Org: key.Org, Tenant: messages.TenantID(tenant)})
	}
	for _, k := range bad {
		_, err := messages.NewKey(k.Org, k.Tenant)
		require.ErrorIs(t, err, messages.ErrInvalidID, "%q", k)
		_, err = messages.ParseKey(k.String())
		require.ErrorIs(t, err, messages.ErrInvalidID, "%q", k)
		path, err := k.Root(state)
		require.ErrorIs(t, err, messages.ErrInvalidID, "%q", k)
		require.Empty(t, path)
	}
	for _, s := range []string{"", "/", "acme", "acme/", "/" + string(key.Tenant), key.String() + "/", key.String() + "/x"} {
		_, err := messages.ParseKey(s)
		require.ErrorIs(t, err, messages.ErrInvalidID, "%q", s)
	}
	entries, err := os.ReadDir(state)
	require.NoError(t, err)
	require.Empty(t, entries, "naming creates nothing")
}

// Whatever identity comes in: a well-formed id, or a typed error; and equal identities, equal ids.
func FuzzDeriveTenant(f *testing.F) {
	f.Add(orgKey, "https://idp.example/acme", "user-1")
	f.Add([]byte("short"), "", "\x00")
	shape := regexp.MustCompile(`^t-[0-9a-f]{32}$`)
	f.Fuzz(func(t *testing.T, key []byte, issuer, subject string) {
		id, err := messages.DeriveTenant(key, issuer, subject)
		if err != nil {
			require.ErrorIs(t, err, messages.ErrInvalidID)
			return
		}
		require.Regexp(t, shape, string(id))
		require.Equal(t, id, derive(t, key, issuer, subject))
	})
}

// Whatever is parsed as a key is written back as it was, and its folder stays below the state root.
func FuzzParseKey(f *testing.F) {
	f.Add("acme/t-3129611eac9be1d5994a2b216b06ed27")
	f.Add("../t-3129611eac9be1d5994a2b216b06ed27\n")
	f.Fuzz(func(t *testing.T, s string) {
		key, err := messages.ParseKey(s)
		if err != nil {
			require.ErrorIs(t, err, messages.ErrInvalidID)
			return
		}
		require.Equal(t, s, key.String())
		path, err := key.Root("/state")
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(path, "/state/orgs/"+string(key.Org)+"/tenants/"), path)
	})
}
