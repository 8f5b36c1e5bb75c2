package fusefs

import (
	"context"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"polis/fusefs/inode"
)

// private makes a mutation of n one that may change it: an object with copyUp set is
// replaced by the view's own first. empty says that its content does not matter.
// done must be called at the end.
func (fs *FS) private(n *inode.Node, m mutation, empty bool) (_ mutation, done func()) {
	up, ok := fs.layers.CopyUp(n, empty)
	if !ok {
		return m, func() {}
	}
	show, do := m.publish, m.do
	m.exclusive = true
	m.publish = func(ctx context.Context, c Caller, t []Target) syscall.Errno {
		if e := up.Prepare(ctx); e != 0 || show == nil {
			return e
		}
		return show(ctx, c, t)
	}
	m.do = func() syscall.Errno {
		if e := up.Commit(); e != 0 {
			return e
		}
		return do()
	}
	return m, up.Drop
}

// unchanged reports whether a SETATTR asks for what is so already: installers set
// the permissions of every program, and that must not cost a copy.
func (fs *FS) unchanged(n *inode.Node, in *fuse.SetAttrIn) bool {
	const harmless = fuse.FATTR_MODE | fuse.FATTR_UID | fuse.FATTR_GID | fuse.FATTR_FH | fuse.FATTR_LOCKOWNER | fuse.FATTR_CTIME | fuse.FATTR_KILL_SUIDGID
	if in.Valid&^uint32(harmless) != 0 {
		return false
	}
	fs.tree.Names.RLock()
	st, e := fs.layers.Stat(n)
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

// sharing makes a link of a file in the store root one of a shared inode, if the
// file is what its name says. done must be called at the end.
func (fs *FS) sharing(n *inode.Node, m mutation) (_ mutation, done func()) {
	sh, ok := fs.layers.Share(n)
	if !ok {
		return m, func() {}
	}
	show, do := m.publish, m.do
	m.exclusive = true
	m.publish = func(ctx context.Context, c Caller, t []Target) syscall.Errno {
		sh.Drop()
		if e := show(ctx, c, t); e != 0 {
			return e
		}
		sh.Prepare(ctx)
		return 0
	}
	m.do = func() syscall.Errno {
		if e := sh.Commit(); e != 0 {
			return e
		}
		return do()
	}
	return m, sh.Drop
}
