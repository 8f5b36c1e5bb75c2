package fusefs

import (
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
	"polis/fusefs/inode"
)

// Lookup answers whether a name exists. A hidden name does not.
func (fs *FS) Lookup(req request, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	if e := validName(name); e != 0 && name != namelessName {
		return status(e)
	}
	if fs.isTop(h.NodeId) {
		return status(fs.lookupTop(name, out))
	}
	parent := fs.tree.Get(h.NodeId)
	if parent == nil {
		return status(syscall.ESTALE)
	}
	if m := fs.echoOf(h); m != nil {
		if e, ok := fs.echoLookup(m, parent, name, out); ok {
			return status(e)
		}
	}
	q := fs.asksFormer(req, h, name)
	fs.tree.Names.RLock()
	defer fs.tree.Names.RUnlock()
	if fs.formerly(q, h, name, out) {
		return fuse.OK
	}
	if name == namelessName {
		return fuse.ENOENT
	}
	e := fs.find(parent, name, out)
	if e == syscall.ENOENT && fs.keepsAbsent(parent, name) && fs.none.Add(parent.ID, name) {
		// No inode, and how long to believe it.
		*out = fuse.EntryOut{}
		out.SetEntryTimeout(fs.timeout)
		return fuse.OK
	}
	return status(e)
}

// find fills out for a visible name and counts the look-up. The name lock is held.
func (fs *FS) find(parent *inode.Node, name string, out *fuse.EntryOut) syscall.Errno {
	p, e := fs.layers.At(parent, name)
	if e != 0 {
		return fs.revalidate(parent, e)
	}
	st, e := backing.StatAt(p.Dir.FD, name)
	fs.layers.Put(p.Dir)
	if e != 0 {
		return fs.revalidate(parent, e)
	}
	verdict := uint64(0)
	if known := fs.tree.At(parent, name); known == nil || !fs.holds(known.Verdict.Load(), inode.VerdictShown) || !known.Is(&st) {
		path, dir := fs.tree.Child(parent, name), st.Mode&unix.S_IFMT == unix.S_IFDIR
		if verdict = fs.judge(path, dir); verdict&inode.VerdictShown == 0 && !fs.guard.Visible(path, dir) {
			return syscall.ENOENT
		}
	}
	if p.Lower && st.Mode&unix.S_IFMT == unix.S_IFREG && !fs.layers.IsLower(parent) {
		fs.followed.lookedUp(fs.tree.Child(parent, name), &st)
	}
	fs.enter(parent, name, p.Root, &st, verdict, out)
	return 0
}

// enter registers a name and fills the answer. verdict is what the guard said
// of the name, if it was asked. The name lock is held.
func (fs *FS) enter(parent *inode.Node, name string, root int, st *unix.Statx_t, verdict uint64, out *fuse.EntryOut) *inode.Node {
	n := fs.tree.Ref(parent, name, fs.layers.KeyAt(parent, name, root, st), uint32(st.Mode), verdict)
	fs.none.Cut(parent.ID, name)
	fs.grown()
	keep := fs.keepName(parent, name)
	n.SetKeep(uint32(keep))
	out.NodeId, out.Generation = n.ID, 1
	fs.attr(fs.layers.MergedTimes(n, st), &out.Attr)
	out.SetEntryTimeout(fs.layers.BoundName(n, fs.ttl(keep, KeepName)))
	out.SetAttrTimeout(fs.freshTTL(n, st))
	return n
}

// enterNameless is enter for an object that has no name, made in parent. Its
// attributes are not kept.
func (fs *FS) enterNameless(parent *inode.Node, st *unix.Statx_t, out *fuse.EntryOut) *inode.Node {
	n := fs.tree.Ref(nil, "", fs.layers.Undated.KeyOf(parent.Root(), st), uint32(st.Mode), 0)
	fs.tree.SetNameless(n, fs.tree.Path(parent))
	out.NodeId, out.Generation = n.ID, 1
	fs.attr(st, &out.Attr)
	if fs.upper() {
		out.SetEntryTimeout(fs.timeout)
		fs.formers.Add(parent.ID, namelessName, n, true)
	}
	return n
}

// attrTTL is how long the kernel may keep attributes just read. While a
// writable open exists it may not: stores through a mapping do not pass here.
func (fs *FS) attrTTL(n *inode.Node, st *unix.Statx_t) time.Duration {
	keep := Keep(n.Keep())
	ttl := fs.ttl(keep, KeepAttr)
	if ttl == 0 && n.IsDir() && keep&KeepMode != 0 {
		if settled(st) {
			return min(fs.timeout, keepModeFor)
		}
		return min(fs.timeout, thisCall)
	}
	if n.IsRegular() && !n.Files.SetAttr(st, ttl > 0) {
		return 0
	}
	return fs.layers.BoundAttr(n, ttl)
}

// freshTTL is attrTTL for what is returned with a name. The call that asked for the
// name checks the caller's rights next, and mostly wants the attributes too: it
// need not ask twice for what others can change, as the next call that comes by
// the name asks again.
func (fs *FS) freshTTL(n *inode.Node, st *unix.Statx_t) time.Duration {
	ttl := fs.attrTTL(n, st)
	if ttl == 0 && fs.timeout > 0 && Keep(n.Keep())&(KeepName|KeepAttr) == 0 {
		return thisCall
	}
	return ttl
}

// Forget subtracts look-ups.
func (fs *FS) Forget(id, count uint64) {
	n := fs.tree.Forget(id, count)
	if n == nil {
		return
	}
	fs.formers.Forget(id)
	if n.IsDir() {
		fs.layers.Drop(n)
		fs.lists.drop(n.ID)
		fs.none.Take(n.ID)
	}
	fs.unpin(n)
	fs.passthrough.Unregister(&n.Files)
}

// GetAttr is stat and fstat.
func (fs *FS) GetAttr(_ request, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	if fs.isTop(in.NodeId) {
		topAttr(&out.Attr)
		out.SetTimeout(fs.timeout)
		return fuse.OK
	}
	n := fs.tree.Get(in.NodeId)
	if n == nil {
		return status(syscall.ESTALE)
	}
	if fs.echoOf(&in.InHeader) != nil {
		return status(fs.echoGetAttr(n, out))
	}
	fs.tree.Names.RLock()
	defer fs.tree.Names.RUnlock()
	return status(fs.fillAttr(n, out))
}

// settled reports whether the maker of a directory has had the time to give it its
// owner and mode: what another view sees of it before must not be kept.
func settled(st *unix.Statx_t) bool {
	made := st.Ctime
	if st.Mask&unix.STATX_BTIME != 0 {
		made = st.Btime
	}
	return time.Since(time.Unix(made.Sec, int64(made.Nsec))) > 2*keepModeFor
}

// fillAttr answers GETATTR and SETATTR.
func (fs *FS) fillAttr(n *inode.Node, out *fuse.AttrOut) syscall.Errno {
	st, e := fs.layers.Stat(n)
	if e != 0 {
		dead := fs.tree.DeadAttr(n)
		if dead == nil {
			return e
		}
		out.Attr = *dead
		return 0
	}
	fs.attr(fs.layers.MergedTimes(n, &st), &out.Attr)
	if dead := fs.tree.DeadAttr(n); dead != nil {
		stays(&out.Attr, dead)
	}
	out.SetTimeout(fs.attrTTL(n, &st))
	return 0
}

// stays corrects the attributes of an open file whose last name has gone: overlayfs still counts the name of a
// file of its lower layers, and a copy has another number.
func stays(now, dead *fuse.Attr) { now.Ino, now.Nlink = dead.Ino, 0 }

// Statx is GETATTR with the time of birth. The kernel asks for it once per inode
// it knows, and only for programs that want that time.
func (fs *FS) Statx(_ request, in *fuse.StatxIn, out *fuse.StatxOut) fuse.Status {
	n := fs.tree.Get(in.NodeId)
	if n == nil {
		return status(syscall.ESTALE)
	}
	fs.tree.Names.RLock()
	defer fs.tree.Names.RUnlock()
	st, e := fs.layers.Stat(n)
	if e != 0 {
		dead := fs.tree.DeadAttr(n)
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
	merged := fs.layers.MergedTimes(n, &st)
	var a fuse.Attr
	fs.attr(merged, &a)
	if dead := fs.tree.DeadAttr(n); dead != nil {
		stays(&a, dead)
	}
	out.FromStatx(merged)
	out.Ino, out.Mode, out.Nlink = a.Ino, uint16(a.Mode), a.Nlink
	out.SetTimeout(fs.attrTTL(n, &st))
	return fuse.OK
}

// Readlink returns the text of a symbolic link; the kernel resolves it where
// the caller lives.
func (fs *FS) Readlink(cancel request, h *fuse.InHeader, dest []byte) (size int, st fuse.Status) {
	n := fs.tree.Get(h.NodeId)
	if n == nil {
		return 0, status(syscall.ESTALE)
	}
	return size, status(fs.audited(fs.auditing(OpReadlink), callerOf(h), OpReadlink, n, func() syscall.Errno {
		g, e := fs.enterRead(cancel, h, OpReadlink, n)
		if e == 0 {
			size, e = fs.linkText(n, dest)
		}
		g.leave(e)
		return e
	}))
}

func (fs *FS) linkText(n *inode.Node, dest []byte) (int, syscall.Errno) {
	fd, _, e := fs.layers.Open(n, unix.O_PATH)
	if e != 0 {
		return 0, e
	}
	defer backing.Close(fd)
	c, err := unix.Readlinkat(fd, "", dest)
	return c, backing.Errno(err)
}
