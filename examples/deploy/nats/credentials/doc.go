// Package credentials makes what NATS servers and their clients prove to each other who they are with: an nkey
// and a TLS certificate for each client, a certificate for each server, and the two authorities that sign them.
//
// It is for the example next to it, for trials and for tests. Where there is a PKI already, take its certificates,
// and only the nkeys from here (or from `nsc`, `nk`): the configuration is the same.
//
// # The files
//
// All are in one folder, which nobody else can read:
//
//	ca.pem, ca.key                    the authority of the client port; keep the key where no server and no node runs
//	routes-ca.pem, routes-ca.key      the authority of the routes between the servers: a client's certificate must
//	                                  not let anybody in there, where there are no accounts and no permissions
//	NAME.pem, NAME.key                the certificate and key of a server (client port) or of a client
//	NAME.routes.pem, NAME.routes.key  those of a server for its routes
//	NAME.nk                           the seed of a client's nkey: a secret
//	public.conf                       the public nkeys of all clients, which the server's configuration includes
//
// # Start here
//
// Fill in a [Plan] and call [Plan.Write]. The program mkcredentials does it from the command line.
package credentials
