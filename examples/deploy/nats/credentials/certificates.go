package credentials

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"path/filepath"
	"time"

	"github.com/leasehold/leasehold/messages"
)

// What a certificate is good for.
var (
	forServer = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	forClient = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	// Of two servers the one that dials is the other's client.
	forRoutes = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  any
}

func (a authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// openAuthority reads an authority from the folder, or makes one.
func (p Plan) openAuthority(dir, name string) (authority, error) {
	certFile, keyFile := filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key")
	there, err := exists(certFile)
	if err != nil {
		return authority{}, err
	}
	if !there {
		template := p.template("leasehold "+name, authorityValid)
		template.IsCA, template.BasicConstraintsValid, template.MaxPathLenZero = true, true, true
		template.KeyUsage = x509.KeyUsageCertSign
		if err := generate(certFile, keyFile, template, nil); err != nil {
			return authority{}, err
		}
	}
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return authority{}, &messages.Error{Code: messages.CodeCorrupt, Object: certFile, Message: "not an authority and its key", Err: err}
	}
	return authority{pair.Leaf, pair.PrivateKey}, nil
}

// issue makes a certificate and its key, unless they are there.
func (p Plan) issue(by authority, dir, file, name string, usage []x509.ExtKeyUsage, hosts []string) error {
	certFile, keyFile := filepath.Join(dir, file+".pem"), filepath.Join(dir, file+".key")
	if there, err := exists(certFile); there || err != nil {
		return err
	}
	template := p.template(name, p.Valid)
	template.KeyUsage, template.ExtKeyUsage = x509.KeyUsageDigitalSignature, usage
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return generate(certFile, keyFile, template, &by)
}

func (p Plan) template(name string, valid time.Duration) *x509.Certificate {
	now := p.Now()
	return &x509.Certificate{
		Subject:   pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Hour), // for clocks that are behind
		NotAfter:  now.Add(valid),
	}
}

// generate makes a key and a certificate for it, signed by an authority or (nil) by itself, and writes both. The key is first:
// a certificate that is there has its key.
func generate(certFile, keyFile string, template *x509.Certificate, by *authority) error {
	failed := func(err error) error {
		return &messages.Error{Code: messages.CodeInternal, Object: certFile, Message: "make a certificate", Err: err}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return failed(err)
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return failed(err)
	}
	if by == nil {
		by = &authority{template, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, key.Public(), by.key)
	if err != nil {
		return failed(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return failed(err)
	}
	if err := write(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), secretMode); err != nil {
		return err
	}
	return write(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), publicMode)
}
