package fusefs

import (
	"errors"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// SetAttr is chmod, chown, truncate and utimensat.
func (fs *FS) SetAttr(cancel request, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	n := fs.tree.get(in.NodeId)
	if n == nil {
		return status(syscall.ESTALE)
	}
	if fh, ok := in.GetFh(); ok { // ftruncate(2)
		if h := fs.files.get(fh); h != nil && h.lost() {
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
	if n.copyUp.Load() && fs.unchanged(n, in) {
		m.do = func() syscall.Errno { return fs.fillAttr(n, out) }
		return status(fs.change(cancel, &in.InHeader, m))
	}
	m, done := fs.private(n, m, false)
	defer done()
	return status(fs.change(cancel, &in.InHeader, m))
}

func (fs *FS) setAttr(n *node, in *fuse.SetAttrIn) syscall.Errno {
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
	fd, _, e := fs.open(n, unix.O_PATH)
	if e != 0 {
		return e
	}
	defer closeFD(fd)
	if in.Valid&others == 0 {
		return touch(fd, &in.InHeader, n.io.writing())
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
		if e := chownFD(fd, u, g, &in.InHeader); e != 0 {
			return e
		}
	}
	if mode, ok := in.GetMode(); ok {
		if !n.isDir() {
			mode = fs.settable(mode)
		}
		if e := chmodFD(fd, mode); e != 0 {
			return e
		}
	}
	if in.Valid&times != 0 {
		ts := []unix.Timespec{
			timespec(in.Valid, fuse.FATTR_ATIME, fuse.FATTR_ATIME_NOW, in.Atime, in.Atimensec),
			timespec(in.Valid, fuse.FATTR_MTIME, fuse.FATTR_MTIME_NOW, in.Mtime, in.Mtimensec),
		}
		return errnoOf(unix.UtimesNanoAt(fd, "", ts, unix.AT_EMPTY_PATH))
	}
	return 0
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

func (fs *FS) truncate(n *node, in *fuse.SetAttrIn, size int64) syscall.Errno {
	if !n.isRegular() {
		return syscall.EINVAL
	}
	fd := -1
	if fh, ok := in.GetFh(); ok {
		if h := fs.files.get(fh); h != nil && h.node == n && h.writable && h.fd >= 0 {
			fd = h.fd
		}
	}
	if fd < 0 {
		var e syscall.Errno
		if fd, _, e = fs.open(n, unix.O_WRONLY); e != 0 {
			return e
		}
		defer closeFD(fd)
	}
	if e := errnoOf(unix.Ftruncate(fd, size)); e != 0 {
		return e
	}
	if in.Valid&fuse.FATTR_KILL_SUIDGID != 0 {
		return killPriv(fd, &in.InHeader)
	}
	return 0
}

// chmodFD sets the mode of what an O_PATH or real descriptor stands for. Linux
// 6.6 has a call for it; before that only /proc names a descriptor.
func chmodFD(fd int, mode uint32) syscall.Errno {
	err := unix.Fchmodat(fd, "", mode, unix.AT_EMPTY_PATH)
	if errors.Is(err, unix.EOPNOTSUPP) {
		st, e := statAt(fd, "")
		if e != 0 {
			return e
		}
		if st.Mode&unix.S_IFMT == unix.S_IFLNK {
			return syscall.EOPNOTSUPP
		}
		err = unix.Chmod(procFD(fd), mode)
	}
	return errnoOf(err)
}

// own gives a new object to its creator with exactly the mode asked for: the
// server's umask and the clearing of set-id bits by chown do not count.
func (fs *FS) own(fd, uid, gid int, mode uint32) syscall.Errno {
	st, e := statAt(fd, "")
	if e != 0 {
		return e
	}
	if int(st.Uid) != uid || (gid >= 0 && int(st.Gid) != gid) {
		if e := errnoOf(unix.Fchownat(fd, "", uid, gid, unix.AT_EMPTY_PATH)); e != 0 {
			return e
		}
	} else if uint32(st.Mode)&0o7777 == mode {
		return 0
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return 0
	}
	return chmodFD(fd, mode)
}
