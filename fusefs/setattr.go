package fusefs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
	"polis/fusefs/inode"
)

// SetAttr is chmod, chown, truncate and utimensat.
func (fs *FS) SetAttr(cancel request, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	n := fs.tree.Get(in.NodeId)
	if n == nil {
		return status(syscall.ESTALE)
	}
	if fs.echoOf(&in.InHeader) != nil {
		return status(fs.echoGetAttr(n, out))
	}
	if fh, ok := in.GetFh(); ok { // ftruncate(2)
		if h := fs.files.Get(fh); h != nil && h.node.Files.Lost(&h.Handle) {
			return fuse.EBUSY
		}
	}
	m := mutation{
		op: OpSetattr, targets: fs.self(n),
		do: func() syscall.Errno {
			if e := fs.setAttr(n, in); e != 0 {
				return e
			}
			return fs.fillAttr(n, out)
		},
	}
	if fs.upper() && n.IsDir() && !n.CopyUp() && in.Valid&^settingTimes == 0 {
		return status(fs.restoreTimes(n, in, out))
	}
	if n.CopyUp() && fs.unchanged(n, in) {
		m.do = func() syscall.Errno { return fs.fillAttr(n, out) }
		return status(fs.change(cancel, &in.InHeader, m))
	}
	m, done := fs.private(n, m, false)
	defer done()
	return status(fs.change(cancel, &in.InHeader, m))
}

func (fs *FS) setAttr(n *inode.Node, in *fuse.SetAttrIn) syscall.Errno {
	if size, ok := in.GetSize(); ok {
		if e := fs.truncate(n, in, int64(size)); e != 0 {
			return e
		}
	}
	const (
		times  = fuse.FATTR_ATIME | fuse.FATTR_MTIME | fuse.FATTR_ATIME_NOW | fuse.FATTR_MTIME_NOW
		others = fuse.FATTR_MODE | fuse.FATTR_UID | fuse.FATTR_GID | times
	)
	if in.Valid&fuse.FATTR_SIZE != 0 && in.Valid&others == 0 {
		return 0
	}
	fd, _, e := fs.layers.Open(n, unix.O_PATH)
	if e != 0 {
		return e
	}
	defer backing.Close(fd)
	if in.Valid&others == 0 {
		return backing.Touch(fd, &in.InHeader, n.Files.Writing())
	}
	uid, byUID := in.GetUID()
	gid, byGID := in.GetGID()
	if byUID || byGID {
		u, g := -1, -1
		if byUID {
			u = int(uid)
		}
		if byGID {
			g = int(gid)
		}
		if e := backing.Chown(fd, u, g, &in.InHeader); e != 0 {
			return e
		}
	}
	if mode, ok := in.GetMode(); ok {
		if !n.IsDir() {
			mode = fs.settable(mode)
		}
		if e := backing.Chmod(fd, mode); e != 0 {
			return e
		}
	}
	if in.Valid&times != 0 {
		ts := []unix.Timespec{
			timespec(in.Valid, fuse.FATTR_ATIME, fuse.FATTR_ATIME_NOW, in.Atime, in.Atimensec),
			timespec(in.Valid, fuse.FATTR_MTIME, fuse.FATTR_MTIME_NOW, in.Mtime, in.Mtimensec),
		}
		return backing.Errno(unix.UtimesNanoAt(fd, "", ts, unix.AT_EMPTY_PATH))
	}
	return 0
}

// settingTimes are the bits of a SETATTR that sets nothing but times.
const settingTimes = fuse.FATTR_ATIME | fuse.FATTR_MTIME | fuse.FATTR_ATIME_NOW | fuse.FATTR_MTIME_NOW | fuse.FATTR_CTIME

// restoreTimes sets the times of a directory without the guard: an overlay does that whenever it has
// put a copy into one, whose rules need not allow more than that copy.
func (fs *FS) restoreTimes(n *inode.Node, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	fs.tree.Names.RLock()
	defer fs.tree.Names.RUnlock()
	if e := fs.setAttr(n, in); e != 0 {
		return e
	}
	return fs.fillAttr(n, out)
}

func timespec(valid, set, now uint32, sec uint64, nsec uint32) unix.Timespec {
	switch {
	case valid&now != 0:
		return unix.Timespec{Nsec: unix.UTIME_NOW}
	case valid&set != 0:
		return unix.Timespec{Sec: int64(sec), Nsec: int64(nsec)}
	}
	return unix.Timespec{Nsec: unix.UTIME_OMIT}
}

func (fs *FS) truncate(n *inode.Node, in *fuse.SetAttrIn, size int64) syscall.Errno {
	if !n.IsRegular() {
		return syscall.EINVAL
	}
	fd := -1
	if fh, ok := in.GetFh(); ok {
		if h := fs.files.Get(fh); h != nil && h.node == n && h.Writable && h.FD >= 0 {
			fd = h.FD
		}
	}
	if fd < 0 {
		var e syscall.Errno
		if fd, _, e = fs.layers.Open(n, unix.O_WRONLY); e != 0 {
			return e
		}
		defer backing.Close(fd)
	}
	if fs.isCopy(n) {
		// An overlay gives each copy the size that it has; the file system below would free and zero blocks.
		if st, e := backing.StatAt(fd, ""); e == 0 && int64(st.Size) == size {
			return 0
		}
	}
	if e := backing.Errno(unix.Ftruncate(fd, size)); e != 0 {
		return e
	}
	if in.Valid&fuse.FATTR_KILL_SUIDGID != 0 {
		return backing.KillPriv(fd, &in.InHeader)
	}
	return 0
}
