package storeurl_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/cmd/node/storeurl"
)

func TestSecretFiles(t *testing.T) {
	for url, want := range map[string][]string{
		"sqlite:/x?password_file=/y": nil,
		"dir:x":                      nil,
		"postgres://u@h/d":           nil,
		"postgres://u@h/d?password_file=/p&sslkey=/k&sslcert=/c&sslrootcert=/r": {"/p", "/k"},
		"postgres://u@h/d?passfile=/p":                                          {"/p"},
		"mysql://u@h/d?password_file=/a%20b":                                    {"/a b"},
		"nats://u@h,i?password_file=/p":                                         {"/p"},
		"nats://h?creds_file=/c&ca_file=/ca":                                    {"/c"},
		"nats://h?nkey_file=/n&key_file=/k&cert_file=/c":                        {"/n", "/k"},
		"nats://?nkey_file=/n":                                                  {"/n"},
		"nats://u:p#@h?nkey_file=/n":                                            nil, // refused as it is
		"s3://bucket/prefix?region=eu":                                          nil,
	} {
		require.Equal(t, want, storeurl.SecretFiles(url), url)
	}
}
