// Package conn is the connection to the kernel's FUSE driver: it mounts, takes
// requests, passes them to a FileSystem and returns the answers, by /dev/fuse or,
// if the kernel supports it, by io_uring. The wire types are go-fuse's; the
// loop is not its server's.
//
// A request starts no goroutine, takes no lock, uses no pool and allocates only
// names. A reader takes a request, and if then no reader waits for the next one it
// starts another before it handles its own. Surplus readers exit. There is a limit; when it is
// reached the last reader handles requests that cannot wait and defers those that
// might, so that files can still be closed, lookups answered and callers interrupted.
//
// A handler that must wait for another process or a person calls Call.Wait. The request is then
// deferred: it moves, with its memory, to a goroutine of its own, where its handler is called again
// from the start, and the reader continues. A goroutine that waits uses no thread; those that run are
// bounded, and so is the number of deferred requests: one more fails with EAGAIN.
//
// With io_uring every processor has a queue with readers of its own, on threads
// that are tied to it: a caller need not wake another processor, and one system
// call gives an answer and takes the next request. These readers do not exit,
// as the kernel keeps state of each. A deferred request keeps its entry in the
// queue, which is the kernel's place for one request; its reader takes that of a request
// that was answered meanwhile, or makes one. An answer that no reader takes
// goes by one more ring, whose entries then serve requests on goroutines. What the kernel does not send that way
// (forgets, interrupts) still comes from the device, and notifications go there.
//
// Every request is validated. A panic in a handler is EIO for the caller and an
// error in the log. ENOSYS permanently disables an opcode for the mount: it is
// passed on only where that does no harm, never for an operation that opens or
// changes anything, nor for one that is unknown here; those are EIO.
//
// It knows no path, no guard and no policy. It owns the descriptor of
// /dev/fuse, which is closed when the last reader has ended.
//
// Mount requests io_uring only when it has a ring for every processor: from then
// on the kernel waits for all of them before it sends any request.
//
// Lock order: Conn.mu (the list of readers) -> Call.mu. entries.mu and lateRing.mu are leaves. Conn.use is held for
// reading around notifications, with nothing else held.
package conn
