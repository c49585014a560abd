// Package s3test runs a real S3 server (versitygw, on a folder) for tests, and a proxy in front of it
// that loses answers. Only tests and the drill import it: it brings the server's dependencies.
//
// The server is the test binary itself, started again as a process of its own, so that it can be
// killed, frozen and restarted, and so that other processes reach it. TestMain must call [Main] first.
package s3test
