// Package conn is the connection to the kernel's FUSE driver: it mounts, takes
// requests, has a FileSystem answer them and gives back the answers, by /dev/fuse
// or, where the kernel offers it, by io_uring. The wire types are go-fuse's; the
// loop is not its server's.
//
// On the way of a request there is no goroutine to start, no lock, no pool and
// no allocation but for names. A reader takes a request, and if that leaves
// nobody waiting for the next one it starts another reader before it handles
// its own: a handler that waits for a person never holds up the mount. Readers
// that are too many end. There is a limit; when it is reached the last reader
// handles what cannot wait and answers EAGAIN to what might, so that files can
// still be closed, look-ups answered and callers interrupted.
//
// With io_uring every processor has a queue with readers of its own, on threads
// that are tied to it: a caller need not wake another processor, and one system
// call gives an answer and takes the next request. These readers do not end, for
// the kernel keeps something of each. What the kernel does not send that way
// (forgetting, interrupts) still comes from the device, and notifications go there.
//
// What the kernel sends is checked before it is believed. A panic in a handler
// is EIO for the caller and an error in the log. ENOSYS makes the kernel stop
// asking, for the whole mount: it is passed on only where that does no harm,
// never for an operation that opens or changes anything, nor for one that is
// unknown here; those are EIO.
//
// It knows no path, no guard and no policy. It owns the descriptor of
// /dev/fuse, which is closed when the last reader has ended.
//
// Mount asks for io_uring only when it has a ring for every processor: from then
// on the kernel waits for all of them before it lets anybody ask anything.
//
// Lock order: Conn.mu (the list of readers) -> Call.mu. Conn.use is held for
// reading around notifications, with nothing else held.
package conn
