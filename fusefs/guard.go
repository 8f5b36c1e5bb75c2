package fusefs

import (
	"context"
	"syscall"
)

// Op names the operation that a guard decides about. The names are those of the FUSE operations,
// so that an audit record can be read beside fuse(4).
type Op string

// The operations a guard sees. OpOpenWrite covers every open that can change
// data (O_WRONLY, O_RDWR, O_TRUNC); OpSetattr covers chmod, chown, truncate
// and utimens.
const (
	OpOpenRead    Op = "open"
	OpReadlink    Op = "readlink"
	OpGetxattr    Op = "getxattr"
	OpListxattr   Op = "listxattr"
	OpReaddir     Op = "readdir"
	OpOpenWrite   Op = "open-write"
	OpCreate      Op = "create"
	OpTmpfile     Op = "tmpfile"
	OpMknod       Op = "mknod"
	OpMkdir       Op = "mkdir"
	OpSymlink     Op = "symlink"
	OpLink        Op = "link"
	OpUnlink      Op = "unlink"
	OpRmdir       Op = "rmdir"
	OpRename      Op = "rename"
	OpExchange    Op = "exchange"
	OpSetattr     Op = "setattr"
	OpFallocate   Op = "fallocate"
	OpCopyRange   Op = "copy-file-range"
	OpSetxattr    Op = "setxattr"
	OpRemovexattr Op = "removexattr"
	OpIoctl       Op = "ioctl"
)

// Caller is the process that made the system call, as the kernel reports it:
// Pid is in the file system server's pid namespace (0 if not visible there).
type Caller struct {
	Pid, Uid, Gid uint32
}

// Target is one name a mutating operation changes.
type Target struct {
	// Path is relative to the root of the mount, slash separated, without a
	// leading slash; the root itself is "".
	Path string
	// Dir is true if the object is (or will be) a directory.
	Dir bool
	// Tree is true if everything below Path is moved or replaced with it
	// (rename of a directory): the guard must allow every name below.
	Tree bool
	// File is true if the object that is renamed is a regular file. Only the first target of OpRename has it.
	File bool
	// Source is true if the name is only read from (the old name of link). In the target of OpTmpfile:
	// the file is a copy, and the rules apply when it gets its name.
	Source bool
	// Whiteout is true if the object is a whiteout: for an overlay above the view, nothing. It is
	// set for names that are removed or renamed, and only in a view with Config.Work.
	Whiteout bool
	// Unlinked is true if the object has no name any more, and Path is from an UnlinkedGuard or was its last one.
	Unlinked bool
}

// Ticket is what a permitted mutation holds: the lease stays busy until
// Done is called. Done is called exactly once, possibly from another
// goroutine, and must not block.
type Ticket interface{ Done() }

// Validator is a Ticket that can be lost while it is held: when Valid returns false,
// the file it was given for is not written to any more.
type Validator interface{ Valid() bool }

// Failer is a Ticket that wants to know that nothing was changed: Failed is
// called before Done when the I/O was refused or failed.
type Failer interface{ Failed() }

// Maker is a Ticket of a create that wants to see the new file: Made is called
// once with a descriptor of it, before Done and before any other process can know
// that the create has succeeded. It must not block.
type Maker interface{ Made(fd int) }

// UnlinkedGuard is a Guard that knows some files which programs have open and which have no name any more.
type UnlinkedGuard interface {
	// Unlinked returns the path by whose rules such a file is read and changed; "" is by none. path was its last name,
	// fd is a descriptor of it (O_PATH or better). ok is false if its last name decides. It must not block.
	Unlinked(path string, fd int) (rules string, ok bool)
}

// HiddenRefuser is a Guard that counts the refusals of changes of names that are not Visible. HiddenRefused is
// called before the operation is answered with ENOENT. It must not block.
type HiddenRefuser interface {
	HiddenRefused(c Caller, op Op, t Target)
}

// Guard decides about every operation before any I/O happens (order:
// validate, policy, lease, I/O, count). A guard is called concurrently. The zero errno
// means "allowed"; any other value goes to the caller as it is. ctx ends
// when the calling process is ending (not at every interrupt). What may take long is called by Wait.
type Guard interface {
	// Visible reports whether the name exists for the agent at all. It is called at every lookup
	// and for every directory entry and must not block.
	Visible(path string, dir bool) bool
	// Read is called before data, link targets or xattrs are read.
	Read(ctx context.Context, c Caller, op Op, path string) syscall.Errno
	// Write is called before anything is changed. It gets all names of the operation at once. On
	// success the Ticket is non-nil.
	Write(ctx context.Context, c Caller, op Op, targets ...Target) (Ticket, syscall.Errno)
	// Publish is called, after Write allowed it, right before old becomes visible as new by link
	// or rename. content is a read-only descriptor of the object (never a path), or -1 for
	// something that is not a regular file.
	Publish(ctx context.Context, c Caller, oldPath, newPath string, content int) syscall.Errno
	// Route returns the index of the backing root (see Config.Roots) in
	// which a name lives. It is pure: the same path always gives the same
	// index, and a name below a directory routed to root i>0 is also i.
	Route(path string) int
	// Xattr returns the value of a virtual extended attribute
	// ("user.polis.*"); ok=false means there is no such virtual attribute. It may
	// wait for another process, for seconds at most.
	Xattr(path, name string) (value []byte, ok bool)
	// Count gets the outcome of every gated operation, last of all.
	Count(op Op, write bool, errno syscall.Errno, nanos int64)
}
