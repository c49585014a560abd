package storeurl

import (
	"net/url"
	"strings"
)

const redacted = "xxxxx"

// secret says whether a query parameter holds a credential. Those that name a file of one do not.
func secret(name string) bool {
	name = strings.ToLower(name)
	if strings.HasSuffix(name, "_file") || strings.HasSuffix(name, "passfile") {
		return false
	}
	for _, part := range []string{"pass", "pwd", "secret", "token", "credential", "access_key"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return name == "key"
}

// Redact returns a store's URL without the secrets that a URL can carry: the password before an @ (of
// NATS and S3 also a lone user, who would be a token or a key), and query parameters that are named like a secret.
func Redact(storeURL string) string {
	scheme, rest, _ := strings.Cut(storeURL, ":")
	if scheme == "sqlite" || scheme == "dir" || !strings.ContainsAny(storeURL, "@?") {
		return storeURL // a path may have such characters
	}
	u, err := Parse(storeURL)
	if err != nil {
		// A password with a # or a % of its own: nothing can be told apart.
		return scheme + ":" + redacted
	}
	if u.User == nil && strings.Contains(rest, "@") {
		// A form of its own, such as user:password@tcp(host)/name. The password may have an @ too.
		host := rest[strings.LastIndex(rest, "@")+1:]
		if strings.ContainsAny(host, "?") {
			return scheme + ":" + redacted
		}
		return scheme + ":" + redacted + "@" + host
	}
	if u.RawQuery != "" {
		values, err := url.ParseQuery(u.RawQuery)
		if err != nil {
			return scheme + ":" + redacted
		}
		for name := range values {
			if secret(name) {
				values.Set(name, redacted)
			}
		}
		u.RawQuery = values.Encode()
	}
	if _, has := u.User.Password(); u.User != nil && !has && (scheme == "nats" || scheme == "s3") {
		u.User = url.User(redacted)
	}
	return u.Redacted()
}
