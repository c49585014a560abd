package s3test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/versity/versitygw/auth"
	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/s3api"
	"github.com/versity/versitygw/s3api/middlewares"
)

// serverEnv tells a test binary that it was started again as the server; its value is an order.
const serverEnv = "LEASEHOLD_S3TEST_SERVER"

// The credentials and the region of every server here, and the bucket that it has.
const (
	AccessKey = "s3test"
	SecretKey = "s3test-secret"
	Region    = "us-east-1"
	Bucket    = "leasehold"
)

type order struct{ Root, Versions, Address string }

// Main makes this process a server if Start started it as one, and then never returns. Otherwise it
// does nothing. Call it first in TestMain.
func Main() {
	text, ok := os.LookupEnv(serverEnv)
	if !ok {
		return
	}
	var o order
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = serve(o)
	}
	fmt.Fprintln(os.Stderr, "s3 server:", err)
	os.Exit(1)
}

func serve(o order) error {
	backend, err := posix.New(o.Root, meta.XattrMeta{}, posix.PosixOpts{NewDirPerm: 0o700, NewFilePerm: 0o600, Concurrency: 500, VersioningDir: o.Versions})
	if err != nil {
		return err
	}
	root := auth.Account{Access: AccessKey, Secret: SecretKey, Role: auth.RoleAdmin}
	server, err := s3api.New(backend, middlewares.RootUserConfig{Access: AccessKey, Secret: SecretKey}, Region,
		auth.NewIAMServiceSingle(root), nil, nil, nil, nil, s3api.WithQuiet(), s3api.WithKeepAlive(), s3api.WithMpMaxParts(10_000),
		s3api.WithConcurrencyLimiter(1000, 1000), s3api.WithOnListen(func() { fmt.Println("ready") }))
	if err != nil {
		return err
	}
	go func() { // the parent is gone when its end of the pipe is
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}()
	return server.ServeMultiPort([]string{o.Address})
}

// Server is a server in a process of its own.
type Server struct {
	// Endpoint is its URL.
	Endpoint string

	order order
	cmd   *exec.Cmd
}

// Start starts a server on a folder of the test's, with one empty bucket, and ends it with the test.
func Start(t testing.TB) *Server { return start(t, "") }

// StartVersioned is Start with a bucket that keeps old versions.
func StartVersioned(t testing.TB) *Server {
	s := start(t, t.TempDir())
	_, err := s.Client().PutBucketVersioning(t.Context(), &awss3.PutBucketVersioningInput{Bucket: aws.String(Bucket),
		VersioningConfiguration: versioningOn})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func start(t testing.TB, versions string) *Server {
	t.Helper()
	// The server wants an address and not a listener: a free port is found by having had it.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	s := &Server{Endpoint: "http://" + address, order: order{Root: t.TempDir(), Versions: versions, Address: address}}
	s.Restart(t)
	t.Cleanup(func() { s.Kill(t) })
	if _, err := s.Client().CreateBucket(t.Context(), &awss3.CreateBucketInput{Bucket: aws.String(Bucket)}); err != nil {
		t.Fatal(err)
	}
	return s
}

// Restart starts the server on its old folder and address, and returns when it is ready.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	text, err := json.Marshal(s.order)
	if err != nil {
		t.Fatal(err)
	}
	s.cmd = exec.Command(os.Args[0])
	s.cmd.Env = append(os.Environ(), serverEnv+"="+string(text), "GORACE=atexit_sleep_ms=0")
	s.cmd.Stderr = os.Stderr
	in, err := s.cmd.StdinPipe() // held open until the server is to end
	if err != nil {
		t.Fatal(err)
	}
	_ = in
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if lines.Text() == "ready" {
			return
		}
	}
	t.Fatalf("the S3 server did not start: %v", s.cmd.Wait())
}

// Kill ends the server as SIGKILL does. It is idempotent.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	if s.cmd.ProcessState != nil {
		return
	}
	if err := s.cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = s.cmd.Wait() // its error is the signal
}

// Freeze stops the server without ending it, as SIGSTOP does, until Thaw.
func (s *Server) Freeze(t testing.TB) { s.signal(t, syscall.SIGSTOP) }

// Thaw lets a frozen server go on.
func (s *Server) Thaw(t testing.TB) { s.signal(t, syscall.SIGCONT) }

func (s *Server) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// Client returns a plain client, with which a test does what no store would.
func (s *Server) Client() *awss3.Client { return Client(s.Endpoint) }

// Client returns a plain client of a server.
func Client(endpoint string) *awss3.Client {
	return awss3.New(awss3.Options{BaseEndpoint: &endpoint, UsePathStyle: true, Region: Region,
		HTTPClient: plainHTTP, Credentials: credentials.NewStaticCredentialsProvider(AccessKey, SecretKey, "")})
}

// Wait polls a condition, which has no event to wait for, until it holds.
func Wait(ctx context.Context, t testing.TB, what string, holds func() bool) {
	t.Helper()
	for !holds() {
		timer := time.NewTimer(5 * time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			t.Fatalf("waited for %s: %v", what, ctx.Err())
		}
	}
}
