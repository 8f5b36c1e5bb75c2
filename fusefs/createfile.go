package fusefs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
	"polis/fusefs/inode"
	"polis/fusefs/openfile"
)

// Create makes and opens a regular file.
func (fs *FS) Create(cancel request, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	if e := validName(name); e != 0 {
		return status(e)
	}
	parent := fs.tree.Get(in.NodeId)
	if parent == nil {
		return status(syscall.ESTALE)
	}
	if e := fs.reserve(&in.InHeader); e != 0 {
		return status(e)
	}
	in.Mode = fs.settable(in.Mode)
	h, temp := newHandle(in.Flags), &tempTicket{}
	tk, e := fs.changeKeep(cancel, &in.InHeader, mutation{
		op: OpCreate, exclusive: parent.CopyUp(), targets: fs.entry(parent, name, false), temp: temp,
		do: func() syscall.Errno { return fs.create(parent, name, in, h, temp, out) },
	})
	if e != 0 {
		fs.files.Budget.Unreserve()
		return status(fs.revalidated(e, parent))
	}
	if m, ok := tk.(Maker); ok {
		m.Made(h.FD)
	}
	h.node.Files.Hold(&h.Handle, tk)
	return fuse.OK
}

func (fs *FS) create(parent *inode.Node, name string, in *fuse.CreateIn, h *handle, temp *tempTicket, out *fuse.CreateOut) syscall.Errno {
	p, e := fs.layers.AtNew(parent, name)
	if e == syscall.EEXIST && in.Flags&unix.O_EXCL == 0 {
		return syscall.ESTALE // as below
	}
	if e != 0 {
		return e
	}
	defer fs.layers.Put(p.Dir)
	flags := int(in.Flags) & (unix.O_ACCMODE | openKeep)
	fd := -1
	if temp.marks() {
		fd, e = temp.make(fs, &in.InHeader, p.Dir.FD, name, flags, in.Mode&0o7777)
	} else {
		e = fs.identity.MakeAs(&in.InHeader, func() (e syscall.Errno) {
			fd, e = backing.OpenAt(p.Dir.FD, name, flags|unix.O_CREAT|unix.O_EXCL, in.Mode&0o7777)
			return e
		})
	}
	if e == syscall.EEXIST && in.Flags&unix.O_EXCL == 0 {
		// The kernel believed the name free. It looks again and opens.
		return syscall.ESTALE
	}
	if e != 0 {
		return e
	}
	st, e := fs.adoptFD(p.Dir.FD, fd, &in.InHeader, in.Mode)
	if e != 0 {
		backing.Close(fd)
		_ = unix.Unlinkat(p.Dir.FD, name, 0) // the error to report is the first one
		return e
	}
	fs.counted(parent, name, 1)
	h.FD = fd
	h.node = fs.enter(parent, name, p.Root, &st, 0, &out.EntryOut)
	if h.Mappable && fs.timeout > 0 {
		out.SetAttrTimeout(thisCall)
	}
	fs.attach(h, &st, in.Uid, &out.OpenOut)
	return 0
}

// newHandle is that of a file that is made by the open.
func newHandle(flags uint32) *handle {
	return &handle{Handle: openfile.Handle{FD: -1, Writable: true, Mappable: flags&unix.O_ACCMODE == unix.O_RDWR, Made: true}}
}

// Tmpfile makes and opens a regular file without a name. The guard is called with the directory;
// giving the file a name later is a link.
func (fs *FS) Tmpfile(cancel request, in *fuse.CreateIn, out *fuse.CreateOut) fuse.Status {
	parent := fs.tree.Get(in.NodeId)
	if parent == nil || !parent.IsDir() {
		return status(syscall.ESTALE)
	}
	if e := fs.reserve(&in.InHeader); e != 0 {
		return status(e)
	}
	in.Mode = fs.settable(in.Mode)
	h := newHandle(in.Flags)
	tk, e := fs.changeKeep(cancel, &in.InHeader, mutation{
		op: OpTmpfile, exclusive: parent.CopyUp(), targets: fs.self(parent),
		do: func() syscall.Errno { return fs.tmpfile(parent, in, h, out) },
	})
	if e != 0 {
		fs.files.Budget.Unreserve()
		return status(e)
	}
	h.node.Files.Hold(&h.Handle, tk)
	return fuse.OK
}

func (fs *FS) tmpfile(parent *inode.Node, in *fuse.CreateIn, h *handle, out *fuse.CreateOut) syscall.Errno {
	if e := fs.layers.CopyUpDir(parent); e != 0 {
		return e
	}
	d, e := fs.layers.Dir(parent, parent.Root())
	if e != 0 {
		return e
	}
	defer fs.layers.Put(d)
	flags := int(in.Flags)&(unix.O_ACCMODE|openKeep|unix.O_EXCL) | unix.O_TMPFILE
	fd := -1
	e = fs.identity.MakeAs(&in.InHeader, func() (e syscall.Errno) {
		fd, e = backing.OpenAt(d.FD, ".", flags, in.Mode&0o7777)
		return e
	})
	if e != 0 {
		return e
	}
	st, e := fs.adoptFD(d.FD, fd, &in.InHeader, in.Mode)
	if e != 0 {
		backing.Close(fd)
		return e
	}
	h.FD = fd
	h.node = fs.enterNameless(parent, &st, &out.EntryOut)
	out.SetAttrTimeout(0)
	fs.attach(h, &st, in.Uid, &out.OpenOut)
	return 0
}
