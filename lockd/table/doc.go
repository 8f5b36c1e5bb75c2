// Package table is the lease table: who may write which path of which
// workspace, who waits for it, and since when.
//
// It owns the rules (conflicts, fair queue, sessions, grace after a restart,
// fencing tokens) and nothing else: it opens nothing, starts nothing, sleeps
// never and reads the time only through Table.Now. That makes it its own fake
// in tests, and every interleaving of a crash reproducible.
//
// A Table is not safe for concurrent use. Package lockd's Server holds one
// mutex around it, which is the only lock there is: the table takes none.
// What a call sets in motion for others (a waiter that got its lease, a lease
// that was taken away) is not done by callback but put down as an Effect,
// fetched with Effects after the call.
package table
