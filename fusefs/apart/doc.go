// Package apart runs functions on threads that have a table of descriptors of their own, without the
// descriptors of the process.
//
// A program that serves a FUSE mount needs it for calls that go through that mount. The kernel ends a
// connection when the last descriptor of it is closed, and closes the descriptors of a killed process with
// its last thread. A thread that waits for an answer of the mount then waits for the connection to end, and
// the connection waits for the thread: neither ends, and nothing that uses the mount (request_wait_answer in
// fs/fuse/dev.c). A thread with another table does not keep the connection.
//
// The package owns its threads, which end with their functions. It knows no mount.
package apart
