package engines

import (
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/leasehold/leasehold/cmd/node/storeurl"
	"github.com/leasehold/leasehold/messages"
)

// address is a store's URL, of which the parts are taken one after the other. The first mistake is kept
// for done, and what is returned after it is not to be used.
type address struct {
	*url.URL
	params url.Values
	known  []string
	err    error
}

// parse reads what follows a scheme.
func parse(scheme, rest string) *address {
	a := &address{URL: &url.URL{}, params: url.Values{}}
	u, err := storeurl.Parse(scheme + ":" + rest)
	switch {
	case !strings.HasPrefix(rest, "//"):
		a.fail("a %s store is named %s://…", scheme, scheme)
	case err != nil:
		a.fail("the URL of a %s store cannot be read: %v", scheme, err)
	default:
		a.URL = u
		if a.params, err = url.ParseQuery(u.RawQuery); err != nil {
			a.fail("the parameters of the %s store cannot be read", scheme)
		}
	}
	for name, values := range a.params {
		if len(values) > 1 {
			a.fail("the parameter %q is there twice", name)
		}
	}
	return a
}

func (a *address) fail(format string, args ...any) {
	if a.err == nil {
		a.err = &messages.Error{Code: messages.CodeInvalidArgument, Message: fmt.Sprintf(format, args...)}
	}
}

// take returns a parameter and removes it; "": it is not there.
func (a *address) take(name string) string {
	a.known = append(a.known, name)
	value := a.params.Get(name)
	if a.params.Has(name) && value == "" {
		a.fail("the parameter %q is empty", name)
	}
	a.params.Del(name)
	return value
}

// number takes a whole number that is at least least; 0: it is not there.
func (a *address) number(name string, least int) int {
	value := a.take(name)
	if value == "" {
		return 0
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < least {
		a.fail("the parameter %q must be a whole number from %d on, is %q", name, least, value)
	}
	return n
}

// flag takes true or false.
func (a *address) flag(name string) bool {
	return a.oneOf(name, "false", "true", "false") == "true"
}

// oneOf takes one of some words; fallback: it is not there.
func (a *address) oneOf(name, fallback string, words ...string) string {
	value := a.take(name)
	if value == "" {
		return fallback
	}
	if !slices.Contains(words, value) {
		a.fail("the parameter %q must be %s, is %q", name, strings.Join(words, " or "), value)
	}
	return value
}

// file takes the path of a file that can be read.
func (a *address) file(name string) string {
	path := a.take(name)
	if path == "" {
		return ""
	}
	f, err := os.Open(path)
	if err != nil {
		a.fail("the parameter %q: %v", name, err)
		return path
	}
	_ = f.Close() // it was not written to
	return path
}

// maxPassword bounds a password's file, in bytes.
const maxPassword = 4096

// password takes the user and the password, which is in the URL, or in the file that password_file names.
func (a *address) password() (user, password string) {
	user = a.User.Username()
	password, inURL := a.User.Password()
	path := a.file("password_file")
	if path == "" || a.err != nil {
		return user, password
	}
	switch {
	case inURL:
		a.fail("the URL has a password and a password_file; leave one out")
	case user == "":
		a.fail("a password_file needs a user in the URL")
	}
	f, err := os.Open(path)
	if err != nil {
		a.fail("the parameter %q: %v", "password_file", err)
		return user, ""
	}
	defer func() { _ = f.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(f, maxPassword+1))
	password = strings.TrimRight(string(text), "\r\n")
	if err != nil || password == "" || len(text) > maxPassword || strings.ContainsAny(password, "\r\n\x00") {
		a.fail("%s: is not one line with a password", path)
	}
	return user, password
}

// done returns the first mistake; a parameter that nobody has taken is one.
func (a *address) done() error {
	if a.err == nil && len(a.params) > 0 {
		var left []string
		for name := range a.params {
			left = append(left, name)
		}
		slices.Sort(left)
		slices.Sort(a.known)
		a.fail("unknown parameters: %s; a %s store has: %s", strings.Join(left, ", "), a.Scheme, strings.Join(a.known, ", "))
	}
	return a.err
}
