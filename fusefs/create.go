package fusefs

import (
	"context"
	"slices"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
	"polis/fusefs/inode"
	"polis/fusefs/overlay"
)

// add makes a new name: gate, make, give it to the caller, register it.
func (fs *FS) add(cancel request, h *fuse.InHeader, op Op, name string, mode uint32, out *fuse.EntryOut, mk func(dir int) syscall.Errno) fuse.Status {
	if e := validName(name); e != 0 {
		return status(e)
	}
	parent := fs.tree.Get(h.NodeId)
	if parent == nil {
		return status(syscall.ESTALE)
	}
	if fs.echoOf(h) != nil {
		return status(fs.echoMake(parent, name, mode, out))
	}
	isDir := mode&unix.S_IFMT == unix.S_IFDIR
	temp := &tempTicket{}
	return status(fs.revalidated(fs.change(cancel, h, mutation{
		op: op, exclusive: parent.CopyUp(), targets: fs.entry(parent, name, isDir), temp: temp,
		do: func() syscall.Errno {
			p, e := fs.layers.AtNew(parent, name)
			if e != 0 {
				return e
			}
			defer fs.layers.Put(p.Dir)
			if e := fs.makeAt(h, temp, p.Dir.FD, name, mode, mk); e != 0 {
				return e
			}
			st, e := fs.adopt(p, name, h, mode)
			if e != 0 {
				flags := 0
				if isDir {
					flags = unix.AT_REMOVEDIR
				}
				_ = unix.Unlinkat(p.Dir.FD, name, flags) // the error to report is the first one
				return e
			}
			fs.counted(parent, name, 1)
			fs.enter(parent, name, p.Root, &st, 0, out)
			return 0
		},
	}), parent))
}

// makeAt calls mk, or makes a temporary file.
func (fs *FS) makeAt(h *fuse.InHeader, temp *tempTicket, dir int, name string, mode uint32, mk func(dir int) syscall.Errno) syscall.Errno {
	switch {
	case !temp.marks():
		return fs.identity.MakeAs(h, func() syscall.Errno { return mk(dir) })
	case mode&unix.S_IFMT != unix.S_IFREG:
		return temp.ticket.Mark(-1)
	}
	fd, e := temp.make(fs, h, dir, name, unix.O_RDWR, mode&0o7777)
	if e == 0 {
		backing.Close(fd)
	}
	return e
}

// adopt gives what was just made at p/name to the caller.
func (fs *FS) adopt(p overlay.Place, name string, h *fuse.InHeader, mode uint32) (unix.Statx_t, syscall.Errno) {
	if st, e := backing.StatAt(p.Dir.FD, name); e == 0 && adopted(&st, h, mode) {
		return st, 0
	}
	fd, e := backing.OpenAt(p.Dir.FD, name, unix.O_PATH, 0)
	if e != 0 {
		return unix.Statx_t{}, e
	}
	defer backing.Close(fd)
	return fs.adoptFD(p.Dir.FD, fd, h, mode)
}

// adopted reports whether a new object needs no change: the caller itself made it, and no
// other attribute applies.
func adopted(st *unix.Statx_t, h *fuse.InHeader, mode uint32) bool {
	return st.Uid == h.Uid && st.Gid == h.Gid && uint32(st.Mode)&0o7777 == mode&0o7777
}

// adoptFD sets owner and mode. A set-group-ID directory hands its group on,
// and to directories the bit as well.
func (fs *FS) adoptFD(dir, fd int, h *fuse.InHeader, mode uint32) (unix.Statx_t, syscall.Errno) {
	if st, e := backing.StatAt(fd, ""); e == 0 && adopted(&st, h, mode) {
		return st, 0
	}
	up, e := backing.StatAt(dir, "")
	if e != 0 {
		return up, e
	}
	gid, mode := int(h.Gid), mode&0o7777
	if up.Mode&unix.S_ISGID != 0 {
		gid = -1
		st, e := backing.StatAt(fd, "")
		if e != 0 {
			return st, e
		}
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			mode |= unix.S_ISGID
		}
	}
	if e := backing.SetOwnerMode(fd, int(h.Uid), gid, mode); e != 0 {
		return up, e
	}
	return backing.StatAt(fd, "")
}

// Mknod makes regular files, FIFOs and sockets, and an overlay's whiteouts. Device nodes are
// refused: they would be a way to the host's devices.
func (fs *FS) Mknod(cancel request, in *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	in.Mode = fs.settable(in.Mode)
	kind := in.Mode & unix.S_IFMT
	switch kind {
	case 0:
		kind = unix.S_IFREG
	case unix.S_IFREG, unix.S_IFIFO, unix.S_IFSOCK:
	case unix.S_IFCHR:
		if !fs.upper() || in.Rdev != 0 {
			return fuse.EPERM
		}
	default:
		return fuse.EPERM
	}
	if fs.waitedFor(kind, name) {
		return fuse.EPERM
	}
	return fs.add(cancel, &in.InHeader, OpMknod, name, in.Mode&0o7777|kind, out, func(dir int) syscall.Errno {
		return backing.Errno(unix.Mknodat(dir, name, in.Mode&0o7777|kind, 0))
	})
}

// waitedFor reports whether an object must not have a name; see Config.Opened.
func (fs *FS) waitedFor(mode uint32, name string) bool {
	kind := mode & unix.S_IFMT
	return (kind == unix.S_IFIFO || kind == unix.S_IFSOCK) && slices.Contains(fs.cfg.Opened, name)
}

// Mkdir makes a directory.
func (fs *FS) Mkdir(cancel request, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	return fs.add(cancel, &in.InHeader, OpMkdir, name, in.Mode&0o7777|unix.S_IFDIR, out, func(dir int) syscall.Errno {
		return backing.Errno(unix.Mkdirat(dir, name, in.Mode&0o7777))
	})
}

// Symlink makes a symbolic link. Its text is free: it is only ever resolved by
// the kernel, where the one who follows it lives.
func (fs *FS) Symlink(cancel request, h *fuse.InHeader, text, name string, out *fuse.EntryOut) fuse.Status {
	return fs.add(cancel, h, OpSymlink, name, unix.S_IFLNK|0o777, out, func(dir int) syscall.Errno {
		return backing.Errno(unix.Symlinkat(text, dir, name))
	})
}

// Link gives an object another name. The guard gets few of those it has:
// a link changes none of them, a later write to the object is put to the
// guard under all, and with all of them here n links would cost n*n.
func (fs *FS) Link(cancel request, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	if e := validName(name); e != 0 {
		return status(e)
	}
	parent, n := fs.tree.Get(in.NodeId), fs.tree.Get(in.Oldnodeid)
	if parent == nil || n == nil {
		return status(syscall.ESTALE)
	}
	if n.IsDir() || fs.waitedFor(n.Kind(), name) {
		return fuse.EPERM
	}
	temp, names := &tempTicket{}, &openNames{}
	m, done := fs.sharing(n, mutation{
		op: OpLink, exclusive: parent.CopyUp(), temp: temp, names: names,
		targets: func() ([]Target, syscall.Errno) {
			t := []Target{{Path: fs.tree.Child(parent, name)}}
			for _, p := range fs.tree.SomePaths(n, inode.FewNames) {
				t = append(t, Target{Path: p, Source: true})
			}
			if p := fs.tree.Path(n); len(t) == 1 && fs.upper() && InWork(p) { // a copy without a name
				t = append(t, Target{Path: p, Source: true})
			}
			return t, 0
		},
		publish: func(ctx context.Context, c Caller, t []Target) syscall.Errno {
			return fs.publish(ctx, c, n, fs.tree.Path(n), t[0].Path)
		},
		do: func() syscall.Errno {
			names.got(n, fs.tree.Child(parent, name))
			return fs.link(n, parent, name, temp, out)
		},
	})
	defer done()
	return status(fs.revalidated(fs.change(cancel, &in.InHeader, m), parent))
}

func (fs *FS) link(n, parent *inode.Node, name string, temp *tempTicket, out *fuse.EntryOut) syscall.Errno {
	p, e := fs.layers.AtNew(parent, name)
	if e != 0 {
		return e
	}
	defer fs.layers.Put(p.Dir)
	if !fs.layers.Linkable(n, p.Root) {
		return syscall.EXDEV
	}
	fd, _, e := fs.layers.Open(n, unix.O_PATH)
	if e != 0 {
		return e
	}
	defer backing.Close(fd)
	if temp.marks() {
		if e := temp.ticket.Mark(fd); e != 0 {
			return e
		}
	}
	if err := unix.Linkat(fd, "", p.Dir.FD, name, unix.AT_EMPTY_PATH); err != nil {
		return backing.Errno(err)
	}
	st, e := backing.StatAt(p.Dir.FD, name)
	if e != 0 {
		return e
	}
	if st.Nlink == 1 { // it had no name before
		fs.counted(parent, name, 1)
	}
	if made := fs.enter(parent, name, p.Root, &st, 0, out); made != n && fs.upper() {
		fs.linked(n, made, &st, out)
	}
	return 0
}

// linked is the answer to a link of n for an overlay, if the name is the inode made: each name of an object that is
// not the view's own is an inode of its own. The overlay requires the inode that was linked (ovl_instantiate in
// fs/overlayfs/dir.c warns if it is another one), and looks the name up again before it uses it: nothing may be kept
// of this answer.
func (fs *FS) linked(n, made *inode.Node, st *unix.Statx_t, out *fuse.EntryOut) {
	fs.Forget(made.ID, 1)
	fs.tree.Again(n)
	*out = fuse.EntryOut{NodeId: n.ID, Generation: 1}
	fs.attr(fs.layers.MergedTimes(n, st), &out.Attr)
}

// publish shows the guard what is about to appear under a new name.
func (fs *FS) publish(ctx context.Context, c Caller, n *inode.Node, oldPath, newPath string) syscall.Errno {
	if fs.unread {
		return 0
	}
	content := -1
	if n != nil && n.IsRegular() {
		fd, e := fs.layers.OpenContent(n)
		if e != 0 {
			return e
		}
		defer backing.Close(fd)
		content = fd
	}
	return fs.guard.Publish(ctx, c, oldPath, newPath, content)
}

// settable is the mode that a file may be given.
func (fs *FS) settable(mode uint32) uint32 {
	if fs.cfg.NoSetID {
		mode &^= unix.S_ISUID | unix.S_ISGID
	}
	return mode
}
