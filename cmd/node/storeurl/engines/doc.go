// Package engines opens the stores that live on servers, by the URLs of package storeurl: what cmd/node
// adds to the embedded ones. [Schemes] has them all. A program that imports this package links the
// clients of PostgreSQL, MariaDB, NATS and S3; one that does not, links none.
//
// Leases:
//
//	postgres://USER[:PASSWORD]@HOST[:PORT][,HOST…]/DATABASE?…   also postgresql://
//	mysql://USER[:PASSWORD]@HOST[:PORT]/DATABASE?…              a MariaDB server
//
// Leases and durable copies:
//
//	nats://[USER[:PASSWORD]@]HOST[:PORT][,HOST…]?…
//	s3://BUCKET[/PREFIX]?…
//
// # Parameters
//
// postgres: schema, max_conns, keep_renewals (heeded when migrating), password_file, and all that libpq
// knows (sslmode, sslrootcert, passfile, target_session_attrs, …). What the URL leaves out is taken from the environment:
// PGPASSWORD, PGPASSFILE, ….
//
// mysql: tls (true, false, preferred, skip-verify), socket (a path, instead of HOST), max_conns,
// keep_renewals, password_file. The environment's MYSQL_PWD is used if the URL has no password.
//
// nats: sync=always or separate_hosts=true, one of which is needed (see nats.Config), replicas, cluster,
// domain, creds_file, nkey_file, password_file, tls, ca_file, cert_file, key_file; for leases
// keep_entries, for copies chunk_bytes.
//
// s3: region, endpoint, path_style, sse, kms_key_id, max_requests, part_size, allow_versioning. Credentials
// come from the environment, a profile or the machine's role, as in every AWS tool; never from the URL.
//
// A file with a password holds it as its only line. A parameter that is not known here is an error, but
// for those of PostgreSQL, which the server judges. No error of a check holds a secret.
//
// # Start here
//
// Pass [Schemes] to cli.Main, as cmd/node does.
package engines
