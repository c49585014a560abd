package s3test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
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

// order is what the server's process is told; Versions: where old versions are kept, "" nowhere.
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

// Serve is a server on a folder and a host:port, without a bucket, in a process that is started for nothing else. It prints
// "ready" when it answers. When standard input ends, so does the process.
func Serve(folder, address string) error { return serve(order{Root: folder, Address: address}) }

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
	in    io.Closer // the server ends when it is closed, and so when this process ends
}

// Launch starts a server on a folder, with one empty bucket. The caller ends it with Stop.
func Launch(ctx context.Context, folder string) (*Server, error) {
	return launch(ctx, order{Root: folder})
}

func launch(ctx context.Context, o order) (*Server, error) {
	s := &Server{order: o}
	// The server wants an address and not a listener: a free port is found by having had it. Somebody
	// else may take it in between, so it is tried more than once.
	var err error
	for range 3 {
		var l net.Listener
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return nil, err
		}
		s.order.Address = l.Addr().String()
		s.Endpoint = "http://" + s.order.Address
		_ = l.Close()
		if err = s.run(); err == nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	if _, err := s.Client().CreateBucket(ctx, &awss3.CreateBucketInput{Bucket: aws.String(Bucket)}); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// run starts the process, and returns when the server is ready.
func (s *Server) run() error {
	text, err := json.Marshal(s.order)
	if err != nil {
		return err
	}
	s.cmd = exec.Command(os.Args[0])
	s.cmd.Env = append(os.Environ(), serverEnv+"="+string(text), "GORACE=atexit_sleep_ms=0")
	s.cmd.Stderr = os.Stderr
	in, inErr := s.cmd.StdinPipe()
	out, outErr := s.cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr, s.cmd.Start()); err != nil {
		return err
	}
	s.in = in
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if lines.Text() == "ready" {
			return nil
		}
	}
	return fmt.Errorf("the S3 server did not start: %w", s.cmd.Wait())
}

// Stop ends the server as SIGKILL does. It is idempotent.
func (s *Server) Stop() error {
	if s.cmd.ProcessState != nil {
		return nil
	}
	if err := s.cmd.Process.Kill(); err != nil {
		return err
	}
	_ = s.cmd.Wait() // its error is the signal
	return nil
}

// Start launches a server for a test, on a folder of the test's, and stops it with the test.
func Start(t testing.TB) *Server { return start(t, "") }

// StartVersioned is Start with a bucket that keeps old versions.
func StartVersioned(t testing.TB) *Server {
	s := start(t, t.TempDir())
	_, err := s.Client().PutBucketVersioning(t.Context(), &awss3.PutBucketVersioningInput{Bucket: aws.String(Bucket),
		VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func start(t testing.TB, versions string) *Server {
	t.Helper()
	s, err := launch(t.Context(), order{Root: t.TempDir(), Versions: versions})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Kill(t) })
	return s
}

// Restart starts a server that was killed on its old folder and address.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if err := s.run(); err != nil {
		t.Fatal(err)
	}
}

// Kill is Stop in a test.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
}

// Path returns the file in which the server keeps an object of its bucket: how a test gets behind its back.
func (s *Server) Path(name string) string {
	return filepath.Join(s.order.Root, Bucket, filepath.FromSlash(name))
}

// Freeze stops the server without ending it, as SIGSTOP does, until Thaw. It has stopped when Freeze returns.
func (s *Server) Freeze(t testing.TB) {
	t.Helper()
	s.signal(t, syscall.SIGSTOP)
	// The signal is delivered some time after it was sent: wait for the stop itself.
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(s.cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("the server did not stop: %v, %v", status, err)
	}
}

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
		HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, Credentials: credentials.NewStaticCredentialsProvider(AccessKey, SecretKey, "")})
}
