package fusefs

import (
	"bytes"
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
	"polis/fusefs/inode"
)

const (
	userPrefix    = backing.UserXattrs
	virtualPrefix = "user.polis."
)

// Only the user name space is passed on. security.* and trusted.* would be
// acted on by the host's kernel with the server's authority, and the bits a
// view could win from them are off anyway (nosuid).

// GetXAttr reads an extended attribute.
func (fs *FS) GetXAttr(cancel request, h *fuse.InHeader, name string, dest []byte) (uint32, fuse.Status) {
	if fs.cfg.NoXattrs {
		return 0, fuse.ENOSYS
	}
	if fs.overlayXattr(name) {
		return fs.getOverlayXattr(h.NodeId, name, dest)
	}
	if name == notifyName && fs.echoOf(h) != nil {
		return uint32(len(echoAnswer)), status(answerXattr(dest))
	}
	if !strings.HasPrefix(name, userPrefix) {
		// Asked for at every exec and write: answered without a look at the file.
		if strings.HasPrefix(name, "system.") {
			return 0, status(syscall.EOPNOTSUPP)
		}
		return 0, fuse.ENODATA
	}
	n := fs.tree.Get(h.NodeId)
	if n == nil {
		return 0, status(syscall.ESTALE)
	}
	g, e := fs.enterRead(cancel, h, OpGetxattr, n)
	size := 0
	switch {
	case e != 0:
	case strings.HasPrefix(name, virtualPrefix):
		path := g.path // under which it is allowed; "" if it is under all
		if path == "" {
			path = fs.tree.Path(n)
		}
		g.unlock() // the guard may ask another process
		size, e = fs.virtualXAttr(path, name, dest)
	default:
		e = fs.withProc(n, func(p string) (err error) {
			size, err = unix.Getxattr(p, name, dest)
			return err
		})
	}
	g.leave(e)
	return uint32(size), status(e)
}

// virtualXAttr is an attribute that the guard makes up. No lock is held.
func (fs *FS) virtualXAttr(path, name string, dest []byte) (size int, e syscall.Errno) {
	v, ok := fs.guard.Xattr(path, name)
	switch {
	case !ok:
		return 0, syscall.ENODATA
	case len(dest) > 0 && len(v) > len(dest):
		return len(v), syscall.ERANGE
	}
	copy(dest, v)
	return len(v), 0
}

// withProc calls f with a path that names an O_PATH descriptor of the object:
// the xattr calls of older kernels have no descriptor form for it.
func (fs *FS) withProc(n *inode.Node, f func(path string) error) syscall.Errno {
	if n.Kind() == unix.S_IFLNK {
		return syscall.EOPNOTSUPP // links have no user attributes
	}
	return fs.withAnyProc(n, f)
}

// withAnyProc is withProc for attributes that symbolic links have, too.
func (fs *FS) withAnyProc(n *inode.Node, f func(path string) error) syscall.Errno {
	fd, _, e := fs.layers.Open(n, unix.O_PATH)
	if e != 0 {
		return e
	}
	defer backing.Close(fd)
	return backing.Errno(f(backing.ProcPath(fd)))
}

// ListXAttr lists the attributes that can be read.
func (fs *FS) ListXAttr(cancel request, h *fuse.InHeader, dest []byte) (uint32, fuse.Status) {
	if fs.cfg.NoXattrs {
		return 0, fuse.ENOSYS
	}
	n := fs.tree.Get(h.NodeId)
	if n == nil {
		return 0, status(syscall.ESTALE)
	}
	g, e := fs.enterRead(cancel, h, OpListxattr, n)
	size := 0
	if e == 0 {
		size, e = fs.listXAttr(n, dest)
	}
	g.leave(e)
	return uint32(size), status(e)
}

func (fs *FS) listXAttr(n *inode.Node, dest []byte) (int, syscall.Errno) {
	if n.Kind() == unix.S_IFLNK {
		return 0, 0
	}
	var names []byte
	e := fs.withProc(n, func(p string) error {
		buf := make([]byte, unix.PathMax*16) // XATTR_LIST_MAX
		c, err := unix.Listxattr(p, buf)
		if err != nil {
			return err
		}
		names = buf[:c]
		return nil
	})
	if e != 0 {
		return 0, e
	}
	var kept []byte
	for _, name := range bytes.SplitAfter(names, []byte{0}) {
		if s := string(name); strings.HasPrefix(s, userPrefix) && !strings.HasPrefix(s, virtualPrefix) {
			kept = append(kept, name...)
		}
	}
	if len(dest) > 0 && len(kept) > len(dest) {
		return len(kept), syscall.ERANGE
	}
	copy(dest, kept)
	return len(kept), 0
}

// changeable refuses attributes that are not the caller's to change.
func (fs *FS) changeable(name string) syscall.Errno {
	switch {
	case fs.cfg.NoXattrs:
		return syscall.EOPNOTSUPP
	case strings.HasPrefix(name, virtualPrefix):
		return syscall.EPERM
	case strings.HasPrefix(name, userPrefix):
		return 0
	case strings.HasPrefix(name, "security."), strings.HasPrefix(name, "trusted."):
		return syscall.EPERM
	}
	return syscall.EOPNOTSUPP
}

// SetXAttr sets an extended attribute.
func (fs *FS) SetXAttr(cancel request, in *fuse.SetXAttrIn, name string, data []byte) fuse.Status {
	if name == notifyName && ourThread(in.Pid) {
		return fuse.OK
	}
	if fs.overlayXattr(name) {
		return fs.changeOverlayXattr(in.NodeId, func(p string) error { return unix.Setxattr(p, name, data, int(in.Flags)) })
	}
	if e := fs.changeable(name); e != 0 {
		return status(e)
	}
	n := fs.tree.Get(in.NodeId)
	if n == nil {
		return status(syscall.ESTALE)
	}
	m, done := fs.private(n, mutation{
		op: OpSetxattr, targets: fs.self(n),
		do: func() syscall.Errno {
			return fs.withProc(n, func(p string) error { return unix.Setxattr(p, name, data, int(in.Flags)) })
		},
	}, false)
	defer done()
	return status(fs.change(cancel, &in.InHeader, m))
}

// RemoveXAttr removes an extended attribute.
func (fs *FS) RemoveXAttr(cancel request, h *fuse.InHeader, name string) fuse.Status {
	if fs.overlayXattr(name) {
		return fs.changeOverlayXattr(h.NodeId, func(p string) error { return unix.Removexattr(p, name) })
	}
	if e := fs.changeable(name); e != 0 {
		return status(e)
	}
	n := fs.tree.Get(h.NodeId)
	if n == nil {
		return status(syscall.ESTALE)
	}
	m, done := fs.private(n, mutation{
		op: OpRemovexattr, targets: fs.self(n),
		do: func() syscall.Errno {
			return fs.withProc(n, func(p string) error { return unix.Removexattr(p, name) })
		},
	}, false)
	defer done()
	return status(fs.change(cancel, h, m))
}
