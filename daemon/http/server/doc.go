// Package server is the admin API: one route table with an access class per
// row, authority from the peer credentials of the unix socket, errors as
// JSON with stable codes, events as server-sent events. It checks form and authority and
// leaves everything else to the Backend.
//
// OpenSocket makes the socket and decides which groups may connect to it: it owns the socket's mode, group and
// access control list.
package server
