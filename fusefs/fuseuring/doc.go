// Package fuseuring reads and sets the kernel's switch for FUSE requests by
// io_uring (fuse-io-uring.rst): the parameter enable_uring of the fuse module,
// which is off by default. The kernel reads it when a file system is mounted; a
// mounted file system keeps what it has.
//
// The switch only offers: a file system that does not ask for io_uring, as nearly
// all do not, uses /dev/fuse. The package holds no lock and knows no file system.
package fuseuring
