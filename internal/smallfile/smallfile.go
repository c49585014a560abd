// Package smallfile reads files that people write or point to: settings, tokens, keys, certificates. What stands under such a name
// may be anything, a device that never ends and a sparse file of terabytes among them, and must not end the process that reads it,
// least of all a node that reads it again while it serves.
//
// A newcomer starts with [Read].
package smallfile

import (
	"crypto/tls"
	"errors"
	"io"
	"os"
)

// MaxBytes is the largest file that is read.
const MaxBytes = 1 << 20

// ErrTooLarge is in the error for a file of more than MaxBytes.
var ErrTooLarge = errors.New("is over 1 MiB")

// Read returns what a file holds. Every error is an *os.PathError, which names the file.
func Read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	if err == nil && len(data) > MaxBytes {
		err = &os.PathError{Op: "read", Path: path, Err: ErrTooLarge}
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}

// KeyPair is tls.LoadX509KeyPair for files that Read takes.
func KeyPair(certFile, keyFile string) (tls.Certificate, error) {
	cert, err := Read(certFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := Read(keyFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(cert, key)
}
