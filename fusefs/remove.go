package fusefs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
	"polis/fusefs/inode"
	"polis/fusefs/overlay"
)

// Unlink removes a name that is not a directory.
func (fs *FS) Unlink(cancel request, h *fuse.InHeader, name string) fuse.Status {
	return fs.remove(cancel, h, OpUnlink, name, 0)
}

// Rmdir removes an empty directory.
func (fs *FS) Rmdir(cancel request, h *fuse.InHeader, name string) fuse.Status {
	return fs.remove(cancel, h, OpRmdir, name, unix.AT_REMOVEDIR)
}

func (fs *FS) remove(cancel request, h *fuse.InHeader, op Op, name string, flags int) fuse.Status {
	if e := validName(name); e != 0 {
		return status(e)
	}
	parent := fs.tree.Get(h.NodeId)
	if parent == nil {
		return status(syscall.ESTALE)
	}
	if fs.echoOf(h) != nil {
		return status(fs.echoRemove(parent, name, flags != 0))
	}
	names := &openNames{}
	return status(fs.revalidated(fs.change(cancel, h, mutation{
		op: op, exclusive: true, names: names, always: fs.upper(), targets: fs.leaving(parent, name, flags != 0),
		do: func() syscall.Errno {
			p, e := fs.layers.At(parent, name)
			if e != 0 {
				return e
			}
			defer fs.layers.Put(p.Dir)
			n, path := fs.tree.At(parent, name), fs.tree.Child(parent, name)
			if e = fs.removeAt(parent, name, p, flags); e == 0 {
				names.lost(n, path)
			}
			return e
		},
	}), parent))
}

// leaving is the targets function of the removal of a name.
func (fs *FS) leaving(parent *inode.Node, name string, dir bool) func() ([]Target, syscall.Errno) {
	if !fs.upper() || dir {
		return fs.entry(parent, name, dir)
	}
	return func() ([]Target, syscall.Errno) {
		t, e := fs.targetAt(parent, name)
		return []Target{{Path: t.Path, Whiteout: t.Whiteout}}, e
	}
}

func (fs *FS) removeAt(parent *inode.Node, name string, p overlay.Place, flags int) syscall.Errno {
	var st unix.Statx_t
	var n *inode.Node
	var e syscall.Errno
	if flags == 0 {
		if n, st, e = fs.statLast(parent, name, p.Dir.FD); e != 0 {
			return e
		}
	} else {
		if st, e = backing.StatAt(p.Dir.FD, name); e != 0 {
			return e
		}
	}
	if e := fs.layers.WhiteOut(p, name, &st, flags != 0); e != 0 {
		fs.unpin(n)
		return e
	}
	was := st
	if known := fs.tree.At(parent, name); known != nil && known.CopyUp() {
		st.Nlink = 1 // this name is all the node has
	}
	if p.Lower {
		fs.gone(parent, name, &st)
		return 0
	}
	if flags != 0 {
		if e := fs.layers.ClearMirrors(parent, name, p); e != 0 {
			return e
		}
	}
	if err := unix.Unlinkat(p.Dir.FD, name, flags); err != nil {
		fs.unpin(n)
		return backing.Errno(err)
	}
	fs.uncounted(parent, name, &was)
	fs.gone(parent, name, &st)
	return 0
}

// statLast stats a name that is about to be removed and, if it is the last known one of an object
// the kernel knows, keeps the object.
func (fs *FS) statLast(parent *inode.Node, name string, dir int) (*inode.Node, unix.Statx_t, syscall.Errno) {
	n := fs.tree.At(parent, name)
	if n != nil && !n.IsDir() {
		if _, sole := fs.tree.Sole(n); sole {
			st, e := fs.pin(n, dir, name)
			return n, st, e
		}
	}
	st, e := backing.StatAt(dir, name)
	return nil, st, e
}

// holdLast is statLast for callers that have looked the name up already.
func (fs *FS) holdLast(parent *inode.Node, name string, dir int) (*inode.Node, syscall.Errno) {
	n := fs.tree.At(parent, name)
	if n == nil || n.IsDir() {
		return nil, 0
	}
	if _, sole := fs.tree.Sole(n); !sole {
		return nil, 0
	}
	_, e := fs.pin(n, dir, name)
	return n, e
}

// gone records that a name was removed or replaced; st is how it was before.
func (fs *FS) gone(parent *inode.Node, name string, st *unix.Statx_t) {
	var left *fuse.Attr
	if dir := st.Mode&unix.S_IFMT == unix.S_IFDIR; dir || st.Nlink <= 1 {
		left = &fuse.Attr{}
		fs.attr(st, left)
		left.Nlink = 0
	}
	n := fs.tree.Unlinked(parent, name, left)
	switch {
	case n == nil:
	case n.IsDir():
		fs.layers.Drop(n)
	case left != nil:
		fs.formers.Forget(n.ID)
	default:
		fs.lostName(parent, name, n)
	}
}

// pin keeps an object whose last known name is about to go (openfile.Inode.Pin), and
// returns its attributes.
func (fs *FS) pin(n *inode.Node, dir int, name string) (unix.Statx_t, syscall.Errno) {
	fd, e := backing.OpenAt(dir, name, unix.O_PATH, 0)
	if e != 0 {
		return unix.Statx_t{}, e
	}
	st, e := backing.StatAt(fd, "")
	if e != 0 || !n.Is(&st) || n.IsDir() {
		backing.Close(fd)
		return st, e
	}
	return st, n.Files.Pin(fd, &fs.files.Budget)
}

func (fs *FS) unpin(n *inode.Node) {
	if n != nil {
		n.Files.Unpin(&fs.files.Budget)
	}
}
