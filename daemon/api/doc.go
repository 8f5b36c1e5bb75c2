// Package api holds the words of the polis API: request and answer types,
// error codes and the table of routes' names. It owns no behaviour, opens nothing and
// imports no other package of polis, so that daemon, client, shim and command
// line speak the same language.
package api
