package storeurl

import (
	"net/url"
	"regexp"
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

// secretFiles are the query parameters that name a file with a credential.
var secretFiles = []string{"password_file", "creds_file", "nkey_file", "key_file", "passfile", "sslkey"}

// SecretFiles returns the paths of the files with credentials that a store's URL names: passwords, keys, credentials of NATS. The forms
// sqlite: and dir: name none.
func SecretFiles(storeURL string) []string {
	u, err := Parse(storeURL)
	if err != nil || u.Scheme == "sqlite" || u.Scheme == "dir" {
		return nil
	}
	var paths []string
	for _, name := range secretFiles {
		if path := u.Query().Get(name); path != "" {
			paths = append(paths, path)
		}
	}
	return paths
}

// schemeName is what stands before the colon of a URL.
var schemeName = regexp.MustCompile(`^[a-z][a-z0-9+.-]*$`)

// inText finds secrets in a text: what follows a name like one and an equals sign, and the password of a URL.
var inText = regexp.MustCompile(`(?i)([a-z_]*(?:pass|pwd|secret|token|credential|access_key)[a-z_]*=)[^&\s"']+|(://[^/@:\s"']*:)[^/@\s"']+@`)

// RedactText returns a text without what looks like a secret: for words of others about what a user wrote.
func RedactText(text string) string {
	return inText.ReplaceAllStringFunc(text, func(found string) string {
		m := inText.FindStringSubmatch(found)
		if m[2] != "" {
			return m[2] + redacted + "@"
		}
		if name := strings.TrimSuffix(m[1], "="); !secret(name) {
			return found
		}
		return m[1] + redacted
	})
}

// Redact returns a store's URL without the secrets that a URL can carry: the password before an @ (of
// NATS and S3 also a lone user, who would be a token or a key), and query parameters that are named like a secret.
func Redact(storeURL string) string {
	scheme, rest, _ := strings.Cut(storeURL, ":")
	switch {
	case scheme == "sqlite" || scheme == "dir":
		return storeURL // a path may have all characters
	case !schemeName.MatchString(scheme) && strings.ContainsAny(storeURL, "=@?"):
		return redacted // no URL, but maybe a list of settings with a password among them
	case strings.Contains(rest, "=") && !strings.HasPrefix(rest, "//") && !strings.Contains(rest, "@"):
		return scheme + ":" + redacted
	case !strings.ContainsAny(storeURL, "@?"):
		return storeURL
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
