package credentials

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/leasehold/leasehold/messages"
)

// Plan says who is to have credentials.
type Plan struct {
	// Servers are the host names of the NATS servers.
	Servers []string
	// Hosts are further names and IP addresses that every server's certificate is good for.
	Hosts []string
	// Clients are the names of those who connect: nodes, apps, people.
	Clients []string
	// Valid is how long the certificates of servers and clients are good for, from now on; 0: a year. Those of the
	// authorities are good for ten years.
	Valid time.Duration
	// Now is the clock that the certificates are dated by; nil: time.Now.
	Now func() time.Time
}

const (
	defaultValid   = 365 * 24 * time.Hour
	authorityValid = 10 * defaultValid
)

// A name becomes the name of a file, of a host, and of a variable in a configuration.
var namePattern = regexp.MustCompile(`\A[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?\z`)

// Write writes the files of the package comment to a folder, which it makes. Keys and certificates that are there stay as they
// are, so that a later call with one more name adds that one. To renew a certificate, delete it and its key first. The errors:
// CodeInvalidArgument for a plan that cannot work, CodeStorage for the disk, CodeCorrupt for a file there that is not what its name says.
// Not safe for two processes at once in one folder.
func (p Plan) Write(dir string) error {
	if p.Valid == 0 {
		p.Valid = defaultValid
	}
	if p.Now == nil {
		p.Now = time.Now
	}
	if err := p.validate(); err != nil {
		return err
	}
	home := filepath.Join(dir, "authorities")
	if err := os.MkdirAll(home, folderMode); err != nil {
		return storage(home, err)
	}
	ca, err := p.openAuthority(home, "ca")
	if err != nil {
		return err
	}
	routes, err := p.openAuthority(home, "routes-ca")
	if err != nil {
		return err
	}
	for _, name := range p.Servers {
		if err := p.server(filepath.Join(dir, "servers", name), name, ca, routes); err != nil {
			return err
		}
	}
	for _, name := range p.Clients {
		if err := p.client(filepath.Join(dir, "clients", name), name, ca); err != nil {
			return err
		}
	}
	return writePublic(dir)
}

func (p Plan) server(dir, name string, ca, routes authority) error {
	if err := os.MkdirAll(dir, folderMode); err != nil {
		return storage(dir, err)
	}
	hosts := append([]string{name}, p.Hosts...)
	return errors.Join(
		p.issue(ca, dir, "server", name, forServer, hosts), p.issue(routes, dir, "server.routes", name, forRoutes, hosts),
		put(filepath.Join(dir, "ca.pem"), ca.pem()), put(filepath.Join(dir, "routes-ca.pem"), routes.pem()))
}

func (p Plan) client(dir, name string, ca authority) error {
	if err := os.MkdirAll(dir, folderMode); err != nil {
		return storage(dir, err)
	}
	return errors.Join(p.issue(ca, dir, "client", name, forClient, nil), writeSeed(filepath.Join(dir, "client.nk")),
		put(filepath.Join(dir, "ca.pem"), ca.pem()))
}

func (p Plan) validate() error {
	for kind, names := range map[string][]string{"server": p.Servers, "client": p.Clients} {
		seen := map[string]bool{}
		for _, name := range names {
			if !namePattern.MatchString(name) {
				return &messages.Error{Code: messages.CodeInvalidArgument, Message: fmt.Sprintf("%q cannot be the name of a %s", name, kind)}
			}
			if seen[Variable(name)] { // of a-b and a.b too: they are one variable
				return &messages.Error{Code: messages.CodeInvalidArgument, Message: fmt.Sprintf("there is a %s named as %q is", kind, name)}
			}
			seen[Variable(name)] = true
		}
	}
	if p.Valid < 0 {
		return &messages.Error{Code: messages.CodeInvalidArgument, Message: "certificates must be good for some time"}
	}
	return nil
}

// Variable is the name under which public.conf has a client's public nkey: NODE_A_NKEY for node-a.
func Variable(client string) string {
	return strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(client)) + "_NKEY"
}

// writeSeed makes an nkey of a user, unless the file is there.
func writeSeed(path string) error {
	if there, err := exists(path); there || err != nil {
		return err
	}
	pair, err := nkeys.CreateUser()
	if err != nil {
		return &messages.Error{Code: messages.CodeInternal, Message: "make an nkey", Err: err}
	}
	defer pair.Wipe()
	seed, err := pair.Seed()
	if err != nil {
		return &messages.Error{Code: messages.CodeInternal, Message: "make an nkey", Err: err}
	}
	return write(path, append(seed, '\n'), secretMode)
}

// writePublic writes the public keys of all clients of the folder to each of its servers.
func writePublic(dir string) error {
	seeds, err := filepath.Glob(filepath.Join(dir, "clients", "*", "client.nk")) // sorted
	if err != nil {
		return storage(dir, err)
	}
	text := []byte("# The public nkeys of the clients. Made by mkcredentials.\n")
	for _, path := range seeds {
		public, err := publicKey(path)
		if err != nil {
			return err
		}
		text = fmt.Appendf(text, "%s: %s\n", Variable(filepath.Base(filepath.Dir(path))), public)
	}
	servers, err := filepath.Glob(filepath.Join(dir, "servers", "*"))
	if err != nil {
		return storage(dir, err)
	}
	for _, server := range servers {
		if err := put(filepath.Join(server, "public.conf"), text); err != nil {
			return err
		}
	}
	return nil
}

func publicKey(path string) (string, error) {
	seed, err := os.ReadFile(path)
	if err != nil {
		return "", storage(path, err)
	}
	pair, err := nkeys.FromSeed(bytes.TrimSpace(seed))
	if err != nil {
		return "", &messages.Error{Code: messages.CodeCorrupt, Object: path, Message: "not the seed of an nkey", Err: err}
	}
	defer pair.Wipe()
	public, err := pair.PublicKey()
	if err != nil {
		return "", &messages.Error{Code: messages.CodeCorrupt, Object: path, Message: "not the seed of an nkey", Err: err}
	}
	return public, nil
}

func exists(path string) (bool, error) {
	_, err := os.Stat(path)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	}
	return false, storage(path, err)
}

// Only the owner reads a secret.
const (
	folderMode fs.FileMode = 0o700
	secretMode fs.FileMode = 0o600
	publicMode fs.FileMode = 0o644
)

// write writes a file, and never over another one.
func write(path string, data []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return storage(path, err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		return storage(path, err)
	}
	return nil
}

// put writes a file that anybody may know, also over an older one.
func put(path string, data []byte) error {
	if err := os.WriteFile(path, data, publicMode); err != nil {
		return storage(path, err)
	}
	return nil
}

func storage(path string, err error) error {
	return &messages.Error{Code: messages.CodeStorage, Object: path, Message: "the folder of the credentials", Err: err}
}
