// Package engine gives the drill its stores: which kinds there are, how a process opens one ([Store]), and a
// private server for each kind that needs one ([Start]), on a free port of the loopback interface, which the
// drill kills, stops and starts again like everything else.
//
// PostgreSQL and MariaDB are the programs of this machine (package servers), in a temporary folder of their own, because
// they may have to run as another user. NATS and S3 (versitygw) are linked in, and run as a child process: the drill's
// own program started again, with [Serve], on a folder of the run.
package engine
