// Package lockd keeps agents off each other's files: leases on repository
// paths and refs, held by one agent at a time.
//
// Three parts: package table has the rules and does no I/O. Server owns the
// one table of a polisd and serves it on a unix socket to root only. Client
// lives in every shim, keeps its agent's session, and answers from memory
// for what the agent already holds.
//
// The server never takes a lease from a session that is connected: the client
// decides how long a lease is held after the last write. When a connection is
// lost, the leases stay in place for StaleTimeout; the client, whose
// clock for that starts earlier than the server's, refuses to use them after
// the same time. A restarted server knows no leases: it lets earlier holders
// reclaim theirs before it grants new ones.
//
// An agent that is alone in a directory has it delegated: its client then
// grants leases there itself, with tokens of a block that came with the
// delegation, and reports them a moment later. In the table a delegation is a
// write lease on the tree that only other holders see. A request that conflicts
// with it recalls it, and waits: the client stops granting there, reports what
// it has, and returns the directory, in this order on one connection; then the
// request is decided as usual. So no decision of the table misses a lease.
// A client that lost its connection uses its delegations as long as its
// leases, and drops them when it reconnects, before it claims its leases.
//
// A client that can compare (Compare) reads what is at a path after the lease is granted and before
// anything changes, and again after the last use. If both are equal, the lease ends at once. Any
// operation that it cannot attribute, and one that begins while another reads, leaves the hold as it is.
//
// The package knows paths and names; it never opens a file of a repository,
// starts no process and decides nothing about policy.
//
// Lock order: Server.mu or Client.mu, then link.mu. No callback (OnEvent,
// OnLost, OnWaiter, HoldFor, WaitFor) is called with a lock held, and nothing
// is written to a socket with Server.mu or Client.mu held.
package lockd
