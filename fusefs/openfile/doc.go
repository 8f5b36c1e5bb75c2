// Package openfile keeps the open files of a view: what each is open for, what
// those of one inode share, how their data flows (through the kernel's page cache,
// or passthrough to the backing file), and what of it the kernel may keep.
//
// It owns the descriptors of open files, the numbers by which the kernel knows
// them, the count of both, and the registrations of backing files.
//
// It knows no name, no guard and no root: the caller opens the backing file,
// says what else can change it, and asks before it does anything. It never
// answers a request.
//
// Lock order: the mutex of an Inode and that of the Table are never held together. Both
// come after every lock of the caller's.
package openfile
