package fusefs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Lookup answers whether a name exists. A hidden name does not.
func (fs *FS) Lookup(_ request, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	if e := validName(name); e != 0 {
		return status(e)
	}
	parent := fs.tree.get(h.NodeId)
	if parent == nil {
		return status(syscall.ESTALE)
	}
	fs.ns.RLock()
	defer fs.ns.RUnlock()
	return status(fs.find(parent, name, out))
}

// find fills out for a visible name and counts the look-up. ns is held.
func (fs *FS) find(parent *node, name string, out *fuse.EntryOut) syscall.Errno {
	p, e := fs.at(parent, name)
	if e != 0 {
		return e
	}
	defer fs.dirs.put(p.dir)
	st, e := statAt(p.dir.fd, name)
	if e != 0 {
		return e
	}
	if !fs.guard.Visible(p.path, st.Mode&unix.S_IFMT == unix.S_IFDIR) {
		return syscall.ENOENT
	}
	fs.enter(parent, name, p.root, &st, out)
	return 0
}

// enter registers a name and fills the answer. ns is held.
func (fs *FS) enter(parent *node, name string, root int, st *unix.Statx_t, out *fuse.EntryOut) *node {
	k := keyOf(root, st)
	if fs.foreignAt(parent, name, root, st) {
		k.own = 1
	}
	n := fs.tree.ref(parent, name, k, uint32(st.Mode))
	out.NodeId, out.Generation = n.id, 1
	entry, attr := fs.timeouts(n, root)
	fs.attr(fs.mergedTimes(n, st), &out.Attr)
	out.SetEntryTimeout(entry)
	if !n.io.writing() {
		out.SetAttrTimeout(attr)
	}
	if root == fs.lower && parent != nil {
		parent.merged.Store(true)
	}
	return n
}

// Forget takes back look-ups.
func (fs *FS) Forget(id, count uint64) {
	n := fs.tree.forget(id, count)
	if n == nil {
		return
	}
	if n.isDir() {
		fs.dirs.drop(n, len(fs.roots))
		fs.lists.drop(n.id)
	}
	fs.unpin(n)
	fs.dropBacking(n)
}

// GetAttr is stat and fstat.
func (fs *FS) GetAttr(_ request, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	n := fs.tree.get(in.NodeId)
	if n == nil {
		return status(syscall.ESTALE)
	}
	fs.ns.RLock()
	defer fs.ns.RUnlock()
	return status(fs.fillAttr(n, out))
}

// fillAttr answers GETATTR and SETATTR. While a writable open exists the
// attributes are not cached: stores through a mapping do not pass here.
func (fs *FS) fillAttr(n *node, out *fuse.AttrOut) syscall.Errno {
	st, e := fs.stat(n)
	if e != 0 {
		dead := fs.tree.deadAttr(n)
		if dead == nil {
			return e
		}
		out.Attr = *dead
		return 0
	}
	fs.attr(fs.mergedTimes(n, &st), &out.Attr)
	if !n.io.writing() {
		_, attr := fs.timeouts(n, n.key.root)
		out.SetTimeout(attr)
	}
	return 0
}

// Statx is GETATTR with the time of birth. The kernel asks for it once per inode
// it knows, and only for programs that want that time.
func (fs *FS) Statx(_ request, in *fuse.StatxIn, out *fuse.StatxOut) fuse.Status {
	n := fs.tree.get(in.NodeId)
	if n == nil {
		return status(syscall.ESTALE)
	}
	fs.ns.RLock()
	defer fs.ns.RUnlock()
	st, e := fs.stat(n)
	if e != 0 {
		dead := fs.tree.deadAttr(n)
		if dead == nil {
			return status(e)
		}
		st = unix.Statx_t{ // without a time of birth
			Mask: unix.STATX_BASIC_STATS, Mode: uint16(dead.Mode), Nlink: dead.Nlink, Uid: dead.Uid, Gid: dead.Gid,
			Ino: dead.Ino, Size: dead.Size, Blocks: dead.Blocks, Blksize: dead.Blksize,
			Atime: unix.StatxTimestamp{Sec: int64(dead.Atime), Nsec: dead.Atimensec},
			Mtime: unix.StatxTimestamp{Sec: int64(dead.Mtime), Nsec: dead.Mtimensec},
			Ctime: unix.StatxTimestamp{Sec: int64(dead.Ctime), Nsec: dead.Ctimensec},
		}
		out.FromStatx(&st)
		return fuse.OK
	}
	merged := fs.mergedTimes(n, &st)
	var a fuse.Attr
	fs.attr(merged, &a)
	out.FromStatx(merged)
	out.Ino, out.Mode = a.Ino, uint16(a.Mode)
	if !n.io.writing() {
		out.SetTimeout(fs.timeout)
	}
	return fuse.OK
}

// Readlink returns the text of a symbolic link; the kernel resolves it where
// the caller lives.
func (fs *FS) Readlink(cancel request, h *fuse.InHeader, dest []byte) (size int, st fuse.Status) {
	n := fs.tree.get(h.NodeId)
	if n == nil {
		return 0, status(syscall.ESTALE)
	}
	e := fs.read(cancel, h, OpReadlink, n, func(string) syscall.Errno {
		fd, _, e := fs.open(n, unix.O_PATH)
		if e != 0 {
			return e
		}
		defer closeFD(fd)
		c, err := unix.Readlinkat(fd, "", dest)
		size = c
		return errnoOf(err)
	})
	return size, status(e)
}
