package fusefs

import (
	"context"
	"log/slog"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
	"polis/fusefs/inode"
)

// private makes a mutation of n one that may change it: an object with copyUp set is
// replaced by the view's own first. empty says that its content does not matter.
// done must be called at the end.
func (fs *FS) private(n *inode.Node, m mutation, empty bool) (_ mutation, done func()) {
	if !n.CopyUp.Load() {
		return m, func() {}
	}
	var s *staged
	show, do := m.publish, m.do
	m.exclusive = true
	m.publish = func(ctx context.Context, c Caller, t []Target) (e syscall.Errno) {
		s.drop()
		if s, e = fs.stage(ctx, n, empty); e != 0 || show == nil {
			return e
		}
		return show(ctx, c, t)
	}
	m.do = func() syscall.Errno {
		if e := fs.settleStaged(n, s); e != 0 {
			return e
		}
		return do()
	}
	return m, func() { s.drop() }
}

// settleStaged puts the copy in the object's place in the tree. The name lock is held for
// writing.
func (fs *FS) settleStaged(n *inode.Node, s *staged) syscall.Errno {
	if !n.CopyUp.Load() {
		return 0
	}
	refs := fs.tree.Refs(n)
	if len(refs) != 1 {
		return syscall.EROFS // it has no name any more: there is no place for a copy
	}
	parent, name := refs[0].Parent, refs[0].Name
	low := n.Root() == fs.lower
	root := n.Root()
	if low {
		root = 0
	}
	if n.IsDir() {
		return fs.raise(n)
	}
	if s == nil {
		return syscall.ESTALE
	}
	st, e := fs.stat(n)
	if e != 0 {
		return e
	}
	var d *dirFD
	if low {
		d, e = fs.mirror(parent, root)
	} else {
		d, e = fs.dir(parent, root)
	}
	if e != 0 {
		return e
	}
	defer fs.dirs.put(d)
	flags := uint(0)
	if low {
		flags = unix.RENAME_NOREPLACE
	} else if now, e := backing.StatAt(d.fd, name); e != 0 || !n.Is(&now) {
		return syscall.ESTALE
	}
	if err := unix.Renameat2(fs.stageDir, s.name, d.fd, name, flags); err != nil {
		return backing.Errno(err)
	}
	s.name = ""
	if low { // else it is in the place of another
		fs.counted(parent, name, 1)
	}
	if st, e = backing.StatAt(d.fd, name); e != 0 {
		return e
	}
	fs.rekey(n, inode.KeyOf(root, &st))
	return n.Files.Reopen(d.fd, name, &st)
}

// raise makes a directory of the lower root one of the tree.
func (fs *FS) raise(n *inode.Node) syscall.Errno {
	if n.Root() != fs.lower || !n.IsDir() {
		return 0
	}
	d, e := fs.mirror(n, 0)
	if e == 0 {
		fs.dirs.put(d)
	}
	return e
}

// errnoLogged is errnoOf for a fault that a person should know of.
func (fs *FS) errnoLogged(op string, err error) syscall.Errno {
	if err == nil {
		return 0
	}
	fs.log.Error("a shared name cannot be made private", slog.String("op", op), slog.Any("err", err))
	return backing.Errno(err)
}

// unchanged says that a SETATTR asks for what is so already: installers set
// the permissions of every program, and that must not cost a copy.
func (fs *FS) unchanged(n *inode.Node, in *fuse.SetAttrIn) bool {
	const harmless = fuse.FATTR_MODE | fuse.FATTR_UID | fuse.FATTR_GID | fuse.FATTR_FH | fuse.FATTR_LOCKOWNER | fuse.FATTR_CTIME | fuse.FATTR_KILL_SUIDGID
	if in.Valid&^uint32(harmless) != 0 {
		return false
	}
	fs.tree.Names.RLock()
	st, e := fs.stat(n)
	fs.tree.Names.RUnlock()
	if e != 0 || in.Valid&fuse.FATTR_KILL_SUIDGID != 0 && st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 {
		return false
	}
	if mode, ok := in.GetMode(); ok && mode&0o7777 != uint32(st.Mode)&0o7777 {
		return false
	}
	uid, byUID := in.GetUID()
	gid, byGID := in.GetGID()
	return (!byUID || uid == st.Uid) && (!byGID || gid == st.Gid)
}
