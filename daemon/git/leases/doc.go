// Package leases is the daemon's own use of the lock table (package lockd): the leases of refs and
// of the whole repository that its git operations take, and the translation between the
// API and the table: requests, leases, events and errors. It decides which explicit locks outlive
// the daemon.
//
// An operation takes at most one lease at a time and waits for it no longer than its level says, so
// that two operations cannot deadlock. The package takes a lease in an agent's name, and breaks one,
// only for a request of the API.
package leases
