package fusefs

import (
	"syscall"

	"polis/fusefs/inode"
)

// Auditor records what callers open and change. It is called concurrently, on the path of every
// such operation, and must not block. What it records are opens, not reads: data that the kernel
// serves from its page cache or through a mapping is not seen.
type Auditor interface {
	// Reserve takes the room for one record before the operation. An errno other than zero goes to
	// the caller, and nothing is done.
	Reserve() syscall.Errno
	// Record fills the room when the operation has succeeded. The calling process waits for the
	// answer meanwhile, so that it can be identified. targets are all names that it changes; for
	// an operation that reads it is one name of the file.
	Record(c Caller, op Op, write bool, targets ...Target)
	// Release gives the room back: nothing was done.
	Release()
}

// Audited reports whether an auditor sees an operation: those that need an open file were seen
// when it was opened, and names and extended attributes are no content.
func Audited(op Op) bool {
	switch op {
	case OpOpenRead, OpOpenWrite, OpCreate, OpTmpfile, OpMknod, OpMkdir, OpSymlink, OpLink, OpUnlink, OpRmdir, OpRename, OpExchange, OpSetattr,
		OpSetxattr, OpRemovexattr, OpReadlink:
		return true
	}
	return false
}

// auditing returns the auditor of an operation, nil for none.
func (fs *FS) auditing(op Op) Auditor {
	if fs.cfg.Auditor == nil || !Audited(op) {
		return nil
	}
	return fs.cfg.Auditor
}

// audited reads of an object, and records that if there is an auditor.
func (fs *FS) audited(a Auditor, c Caller, op Op, n *inode.Node, read func() syscall.Errno) syscall.Errno {
	if a == nil {
		return read()
	}
	if e := a.Reserve(); e != 0 {
		return e
	}
	if e := read(); e != 0 {
		a.Release()
		return e
	}
	fs.tree.Names.RLock()
	name := fs.shownName(n)
	fs.tree.Names.RUnlock()
	a.Record(c, op, false, Target{Path: name, Dir: n.IsDir()})
	return 0
}

// shownName returns the first of an object's names that the agent can see.
func (fs *FS) shownName(n *inode.Node) string {
	all := fs.tree.FewPaths(n)
	for _, p := range all {
		if fs.guard.Visible(p, false) {
			return p
		}
	}
	return all[0]
}
