package config

import (
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/leasehold/leasehold/cmd/node/storeurl"
)

// What undoes the protection that other settings promise is refused, unless the setting insecure names it. Then it is logged.
const (
	// ReadableSecrets: a file with tokens, keys or passwords that every user of the machine may read.
	ReadableSecrets = "readable_secrets"
	// WritableStateRoot: a folder of data in which every user of the machine may replace files.
	WritableStateRoot = "writable_state_root"
	// PlainHTTP: bearer tokens that cross a network as they are. Right behind a proxy that speaks TLS, on a network of one's own.
	PlainHTTP = "plain_http"
	// OpenNATS: an embedded NATS server that lets every user of the machine in, beside an API that wants tokens.
	OpenNATS = "open_nats"
)

var insecurities = []string{OpenNATS, PlainHTTP, ReadableSecrets, WritableStateRoot}

// InsecureList returns what the setting insecure names.
func (c Config) InsecureList() []string {
	if c.Insecure == "" {
		return nil
	}
	return strings.Split(c.Insecure, ",")
}

// Warn logs what is insecure and allowed.
func (c Config) Warn(log *slog.Logger) {
	for _, name := range c.InsecureList() {
		log.Warn("the configuration allows what is not secure", "insecure", name)
	}
}

// insecure checks what undoes the protection of other settings; c is given.Effective().
func (v *validator) insecure(given, c Config, checker Checker) {
	allowed := c.InsecureList()
	for _, name := range allowed {
		if !slices.Contains(insecurities, name) {
			v.fail("insecure", "must name some of %s, joined by commas; is %q", strings.Join(insecurities, ", "), name)
			return
		}
	}
	refuse := func(name, field, format string, args ...any) {
		if !slices.Contains(allowed, name) {
			v.fail(field, format+"; insecure: "+name+" allows it", args...)
		}
	}
	secrets := map[string]string{"token_file": c.TokenFile, "tls_key": c.TLSKey}
	for org, path := range c.OrgKey {
		secrets["orgs."+org] = path
	}
	readable := func(field, path string) {
		if mode, ok := modeOf(path); ok && mode&0o004 != 0 {
			refuse(ReadableSecrets, field, "%s can be read by every user of this machine (%v): chmod o= it", path, mode.Perm())
		}
	}
	for field, path := range secrets {
		readable(field, path)
	}
	for field, store := range map[string]string{"leases": given.Leases, "durable": given.Durable, "nats": given.NATS.URL, "nats_params": "nats://?" + given.NATS.Params} {
		for _, path := range storeurl.SecretFiles(store) {
			readable(field, path)
		}
	}
	for field, path := range map[string]string{"state_root": c.StateRoot, "leases": local(c.Leases, "sqlite:"), "durable": local(c.Durable, "dir:")} {
		if mode, ok := modeOf(path); ok && mode&0o002 != 0 {
			refuse(WritableStateRoot, field, "%s can be written to by every user of this machine (%v): chmod o-w it", path, mode.Perm())
		}
	}
	if c.TokenFile == "" {
		return
	}
	if !c.Loopback() && c.TLSCert == "" {
		refuse(PlainHTTP, "tls_cert", "is needed to listen on %s: tokens would cross the network as they are", c.Listen)
	}
	if c.Embedded && checker != nil && checker.Open(c) {
		refuse(OpenNATS, "nats_config", "must say who may come in: requests over NATS need no token, and every user of this machine reaches %s", c.NATS.Listen)
	}
}

// local returns the path of a store of a scheme that is a path; "": it is none.
func local(store, scheme string) string {
	path, ok := strings.CutPrefix(store, scheme)
	if !ok {
		return ""
	}
	return path
}

func modeOf(path string) (fs.FileMode, bool) {
	info, err := os.Stat(path)
	if path == "" || err != nil {
		return 0, false // whoever opens it says so
	}
	return info.Mode(), true
}
