package storeurl

import (
	"errors"
	"net/url"
	"strings"
)

// errUnreadable stands for the errors of url.Parse, which quote what they could not read.
var errUnreadable = errors.New("not a URL; in a user, a password or a value, special characters are written as %XX")

// Parse is url.Parse for URLs that may name several hosts, joined by commas, each with a port or none.
// They are in Host. A fragment is an error: it is what follows a # in a password that was not escaped.
// The errors do not hold the URL.
func Parse(storeURL string) (*url.URL, error) {
	scheme, rest, ok := strings.Cut(storeURL, "://")
	if !ok {
		u, err := url.Parse(storeURL)
		if err != nil || u.Fragment != "" {
			return nil, errUnreadable
		}
		return u, nil
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	begin := strings.LastIndex(rest[:end], "@") + 1
	hosts := strings.Split(rest[begin:end], ",")
	var u *url.URL
	for _, host := range hosts {
		var err error
		if u, err = url.Parse(scheme + "://" + rest[:begin] + host + rest[end:]); err != nil || u.Fragment != "" {
			return nil, errUnreadable
		}
	}
	u.Host = strings.Join(hosts, ",")
	return u, nil
}
