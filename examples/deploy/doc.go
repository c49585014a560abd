// Package deploy is nothing but the tests of the files in this folder: an image, Compose and Kubernetes examples, and the
// accounts and permissions of NATS servers. README.md says what is what.
//
// There is no Docker and no Kubernetes where these tests run. So the files are not run but checked for what would go wrong:
// that they parse strictly, agree with each other, and name settings, ports and files that exist; and the program itself, `node config`,
// judges each node's configuration with every file that it mounts in its place. The NATS configuration is run, see folder nats.
package deploy
