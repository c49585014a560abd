// Package credentials makes what NATS servers and their clients prove to each other who they are with: an nkey
// and a TLS certificate for each client, a certificate for each server, and the two authorities that sign them.
//
// It is for the example next to it, for trials and for tests. Where there is a PKI already, take its certificates,
// and only the nkeys from here (or from `nsc`, `nk`): the configuration is the same.
//
// # The files
//
// Each server and each client has a folder with all that it may have, to be put on its machine as it is:
//
//	authorities/           ca and routes-ca: the certificates of the two authorities (.pem) and their keys (.key), which
//	                       belong where no server and no node runs
//	servers/NAME/          server.pem, server.key           for the port of the clients
//	                       server.routes.pem, …routes.key   for the routes between the servers
//	                       ca.pem, routes-ca.pem            whom to believe
//	                       public.conf                      the public nkeys of all clients
//	clients/NAME/          client.pem, client.key, ca.pem   for TLS
//	                       client.nk                        the seed of the nkey: a secret
//
// Routes have an authority of their own because a client's certificate must let nobody in there: between
// servers there are no accounts and no permissions.
//
// # Start here
//
// Fill in a [Plan] and call [Plan.Write]. The program mkcredentials does it from the command line.
package credentials
