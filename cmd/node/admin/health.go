package admin

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/alecthomas/kong"

	"github.com/leasehold/leasehold/cmd/node/config"
	"github.com/leasehold/leasehold/internal/smallfile"
	"github.com/leasehold/leasehold/messages"
)

// maxHealth bounds what is read of a node's answer, in bytes.
const maxHealth = 1 << 16

// Health asks the node on this machine whether it is well: the health check of a container that has no shell and no
// curl. It finds the node as the node itself was told to listen, and needs no token.
type Health struct {
	Config  string        `help:"YAML file of the node, for its address." placeholder:"FILE"`
	Listen  string        `default:"127.0.0.1:7070" help:"Address of the node's HTTP API, as the node has it: of 0.0.0.0 the loopback address is asked."`
	TLSCert string        `name:"tls-cert" help:"Certificate of the node's HTTP API, in PEM, if it has one: nobody else is taken for the node." placeholder:"FILE"`
	TLSKey  string        `name:"tls-key" help:"Key of the certificate: with it this command is a client too, for a node that asks for client certificates. Their authority must have signed the node's." placeholder:"FILE"`
	Ready   bool          `help:"Ask whether new requests should come here (/readyz), not only whether the process answers (/healthz)." env:"-"`
	Timeout time.Duration `default:"5s" help:"Time for the answer." env:"-"`
}

// BeforeResolve is kong's hook: it makes the file of --config a source of --listen.
func (c *Health) BeforeResolve(ctx *kong.Context) error { return new(config.Stores).BeforeResolve(ctx) }

// Run implements the command. The errors: CodeInvalidArgument for an address that cannot be asked, CodeUnavailable for a node that does not
// answer in time, and the node's own error if it is not well (CodeDraining, CodeUnavailable, …).
func (c *Health) Run(ctx context.Context, env *Env) error {
	address, err := askable(c.Listen)
	if err != nil {
		return err
	}
	path := "/healthz"
	if c.Ready {
		path = "/readyz"
	}
	scheme, security, err := c.security()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+address+path, nil)
	if err != nil {
		return &messages.Error{Code: messages.CodeInvalidArgument, Message: "the address cannot be asked", Err: err}
	}
	unavailable := func(err error) error {
		return &messages.Error{Code: messages.CodeUnavailable, Message: "the node does not answer", Err: err}
	}
	// No proxy: this machine is asked, and nobody else.
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: security}
	defer transport.CloseIdleConnections()
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return unavailable(err)
	}
	defer func() { _ = answer.Body.Close() }() // it was only read
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxHealth))
	if err != nil {
		return unavailable(err)
	}
	if answer.StatusCode == http.StatusOK {
		_, err := fmt.Fprintf(env.Stdout, "%s\n", body)
		return err
	}
	var refusal messages.Error
	if err := json.Unmarshal(body, &refusal); err != nil {
		return unavailable(fmt.Errorf("%s, and no error document: is it a node? %w", answer.Status, err))
	}
	return &refusal
}

// security returns how the node is asked: over TLS if it has a certificate. Whatever names that certificate is good for, it
// must be the very one of the file.
func (c *Health) security() (scheme string, _ *tls.Config, err error) {
	if c.TLSCert == "" {
		return "http", nil, nil
	}
	pair, err := smallfile.KeyPair(c.TLSCert, c.TLSKey)
	if err != nil {
		return "", nil, &messages.Error{Code: messages.CodeInvalidArgument, Object: c.TLSCert, Message: "the certificate and its key cannot be used", Err: err}
	}
	return "https", &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair},
		InsecureSkipVerify: true, // what is verified instead:
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 || !bytes.Equal(s.PeerCertificates[0].Raw, pair.Certificate[0]) {
				return errors.New("this is not the node's certificate")
			}
			return nil
		},
	}, nil
}

// askable turns an address to listen on into one to ask.
func askable(listen string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil || port == "" || port == "0" {
		return "", &messages.Error{Code: messages.CodeInvalidArgument, Message: fmt.Sprintf("listen: %q is not HOST:PORT with a port to ask", listen)}
	}
	if host == "" {
		host = "127.0.0.1"
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		if host = "127.0.0.1"; ip.Is6() {
			host = "::1"
		}
	}
	return net.JoinHostPort(host, port), nil
}
