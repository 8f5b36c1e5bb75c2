// Package offer is the kernel's switch for FUSE requests by io_uring: a
// parameter of the fuse module, off unless somebody has turned it on. It is read
// when a file system is mounted; what is mounted then keeps what it has.
//
// The kernel only offers: file systems that do not ask, which is nearly all, go
// on with /dev/fuse.
package offer
