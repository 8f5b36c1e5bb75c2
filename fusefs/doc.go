// Package fusefs serves a view: a pass-through FUSE file system over one or
// more backing directories in which a Guard decides about every operation.
//
// It owns the mount, the operations and the gate: each operation is a function
// here, read from top to bottom (open.go for an open). It knows no agent, no policy
// and no lease: the guard does. Its parts are packages of their own:
//
//   - inode: which inodes and names the kernel knows
//   - openfile: open files, what of them is cached, passthrough
//   - overlay: in which root a name lives, and how what is shared becomes private
//   - backing: input and output below the gate
//   - conn: the requests of the kernel
//   - tempfile: the marks of temporary files; only a guard uses it
//
// None of these imports this package, and only this one calls the guard. inode.Node and the
// handle of an open file embed the state that openfile keeps, by value: one
// object is allocated for each, and nothing is looked up twice.
//
// It never hands a path string of the backing tree to the kernel. Below the
// gate there are only descriptors: every name is opened relative to the
// descriptor of its directory, without following symbolic links, and what was
// opened is compared with the inode that was meant.
//
// It never answers success to an operation it does not implement, and it never
// answers ENOSYS to OPEN (which would permanently disable the opcode for the
// mount).
//
// Order of every operation: validate the names, call the guard, do the I/O,
// count. The guard is called without any lock held, because it may wait for
// seconds. Afterwards the names are computed again under the name lock; if they
// changed meanwhile the guard is called again.
//
// A view cannot revoke an open descriptor or a mapping after the guard's rules have
// changed, and does not know the names of a hard link that were never looked up.
// For a change to an object the guard gets all its known names; a read needs one of
// them.
//
// A guard that waits for another agent or for a person does so in Wait, which keeps no reader
// and no thread. Only a caller that is ending ends such a wait: the kernel also reports signals
// that a program handles, and freezing.
//
// Methods of the guard may wait in Read, Write, Publish and Xattr only. None of them
// may call InvalidateAll or InvalidatePath and rely on its effect.
//
// The kernel requests listings that it has not cached (READDIR); between two
// invalidations they are the same for every process that uses the view.
//
// Lock order: the name lock (inode.Table.Names) -> openfile.Inode (the open files of
// one inode) -> the table of inodes -> the cache of directories (overlay). The kernel is
// notified with none of them held.
package fusefs
