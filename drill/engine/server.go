package engine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/leasehold/leasehold/stores/s3/s3test"
	"github.com/leasehold/leasehold/stores/storetest/servers"
)

// Server is a running server. Its methods are for one goroutine at a time.
type Server struct {
	Kind Kind
	process
	address string              // HOST:PORT
	at      func(string) string // what stands in a Store for it, at an address
}

// process is what the drill does to a server.
type process interface {
	Start(ctx context.Context) error
	Kill() error
	Pause() error
	Resume() error
	Stop() error
}

// Servers are those that a run's stores need: none, one, or two.
type Servers []*Server

// Stop ends all of them.
func (s Servers) Stop() error {
	var errs []error
	for _, server := range s {
		errs = append(errs, server.Stop())
	}
	return errors.Join(errs...)
}

// Start starts the servers that stores of these kinds need, below a folder, and returns where the stores
// are. A kind that needs none is where the caller's Stores say already. exe is the command line that calls
// Serve; its arguments are appended. Without a server's programs the error is servers.ErrNotInstalled.
func Start(ctx context.Context, s Stores, folder string, exe []string) (Stores, Servers, error) {
	var running Servers
	for _, kind := range []Kind{s.Leases.Kind, s.Durable.Kind} {
		if !kind.HasServer() || running.of(kind) != nil { // one server may have both
			continue
		}
		server, err := start(ctx, kind, filepath.Join(folder, string(kind)), exe)
		if server != nil {
			running = append(running, server)
		}
		if err != nil {
			return s, nil, errors.Join(fmt.Errorf("start the %s server: %w", kind, err), running.Stop())
		}
	}
	return running.place(s, func(server *Server) string { return server.address }), running, nil
}

// of returns the server of a kind; nil: there is none.
func (s Servers) of(kind Kind) *Server {
	for _, server := range s {
		if server.Kind == kind {
			return server
		}
	}
	return nil
}

// place returns stores with the servers at the addresses that they are to be reached at.
func (s Servers) place(where Stores, address func(*Server) string) Stores {
	for _, store := range []*Store{&where.Leases, &where.Durable} {
		if server := s.of(store.Kind); server != nil {
			store.At = server.at(address(server))
		}
	}
	return where
}

// start starts one server. If it fails after its process ran, it returns both the server and the error.
func start(ctx context.Context, kind Kind, folder string, exe []string) (*Server, error) {
	switch kind {
	case Postgres:
		s, err := servers.PostgreSQL(ctx)
		if err != nil {
			return nil, err
		}
		return &Server{kind, s, s.Addr(), func(address string) string { return s.DSNVia(address, "", "") }}, nil
	case MySQL:
		s, err := servers.MariaDB(ctx)
		if err != nil {
			return nil, err
		}
		return &Server{kind, s, s.Addr(), func(address string) string { return s.DSNVia(address, "", database) }},
			s.Exec(ctx, "", "CREATE DATABASE "+database)
	case NATS:
		c, err := newChild(ctx, exe, kind, folder)
		if err != nil {
			return nil, err
		}
		return &Server{kind, c, c.address, func(address string) string { return "nats://" + address }}, nil
	case S3:
		c, err := newChild(ctx, exe, kind, folder)
		if err != nil {
			return nil, err
		}
		at := func(address string) string { return "http://" + address }
		_, err = s3test.Client(at(c.address)).CreateBucket(ctx, &awss3.CreateBucketInput{Bucket: aws.String(s3test.Bucket)})
		return &Server{kind, c, c.address, at}, err
	}
	return nil, fmt.Errorf("%q has no server", kind)
}

// database is the one of the drill on a MariaDB server.
const database = "drill"
