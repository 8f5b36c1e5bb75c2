package fusefs

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// staged is a private copy of a foreign object that has no place in the tree
// yet. It is made without a lock held: a file may be large.
type staged struct {
	fs   *FS
	name string // in stageDir; "" once it was put into the tree
}

// drop removes a copy that was not used.
func (s *staged) drop() {
	if s != nil && s.name != "" {
		_ = unix.Unlinkat(s.fs.stageDir, s.name, 0) // a leftover is removed at the next start
		s.name = ""
	}
}

// stage copies a foreign object that is not a directory.
func (fs *FS) stage(ctx context.Context, n *node, empty bool) (*staged, syscall.Errno) {
	if n.isDir() {
		return nil, 0
	}
	fs.ns.RLock()
	flags := unix.O_PATH
	if n.isRegular() {
		flags = unix.O_RDONLY | unix.O_NONBLOCK
	}
	from, st, e := -1, unix.Statx_t{}, syscall.Errno(0)
	if n.copyUp.Load() { // else somebody was faster
		from, st, e = fs.open(n, flags)
	}
	fs.ns.RUnlock()
	if e != 0 || from < 0 {
		return nil, e
	}
	defer closeFD(from)
	s := &staged{fs: fs, name: "c" + strconv.FormatUint(fs.staged.Add(1), 10)}
	if n.isRegular() {
		e = fs.stageFile(ctx, s.name, from, &st, empty)
	} else {
		e = fs.stageLink(s.name, from, &st)
	}
	if e != 0 {
		s.drop()
		return nil, e
	}
	return s, 0
}

func (fs *FS) stageFile(ctx context.Context, name string, from int, st *unix.Statx_t, empty bool) syscall.Errno {
	fd, e := openAt(fs.stageDir, name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o600)
	if e != 0 {
		return e
	}
	defer closeFD(fd)
	if !empty {
		if e := copyContent(ctx, fd, from); e != 0 {
			return e
		}
	}
	if e := copyXattrs(fd, from); e != 0 {
		return e
	}
	if e := fs.own(fd, int(st.Uid), int(st.Gid), uint32(st.Mode)&0o7777); e != 0 {
		return e
	}
	return errnoOf(unix.UtimesNanoAt(fd, "", times(st), unix.AT_EMPTY_PATH))
}

func (fs *FS) stageLink(name string, from int, st *unix.Statx_t) syscall.Errno {
	buf := make([]byte, unix.PathMax)
	c, err := unix.Readlinkat(from, "", buf)
	if err != nil {
		return errnoOf(err)
	}
	if err := unix.Symlinkat(string(buf[:c]), fs.stageDir, name); err != nil {
		return errnoOf(err)
	}
	if err := unix.Fchownat(fs.stageDir, name, int(st.Uid), int(st.Gid), unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return errnoOf(err)
	}
	return errnoOf(unix.UtimesNanoAt(fs.stageDir, name, times(st), unix.AT_SYMLINK_NOFOLLOW))
}

func times(st *unix.Statx_t) []unix.Timespec {
	return []unix.Timespec{{Sec: st.Atime.Sec, Nsec: int64(st.Atime.Nsec)}, {Sec: st.Mtime.Sec, Nsec: int64(st.Mtime.Nsec)}}
}

// copyContent copies a whole file, sharing its blocks where the file system can.
func copyContent(ctx context.Context, to, from int) syscall.Errno {
	if unix.IoctlFileClone(to, from) == nil {
		return 0
	}
	buf := make([]byte, 256<<10)
	for off := int64(0); ; {
		if ctx.Err() != nil {
			return syscall.EINTR
		}
		n, err := unix.Pread(from, buf, off)
		if err != nil || n == 0 {
			return errnoOf(err)
		}
		for b := buf[:n]; len(b) > 0; {
			w, err := unix.Pwrite(to, b, off)
			if err != nil {
				return errnoOf(err)
			}
			off, b = off+int64(w), b[w:]
		}
	}
}

// copyXattrs copies what a view shows of them.
func copyXattrs(to, from int) syscall.Errno {
	buf := make([]byte, unix.PathMax*16) // XATTR_LIST_MAX
	n, err := unix.Flistxattr(from, buf)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return 0
	}
	if err != nil {
		return errnoOf(err)
	}
	val := make([]byte, 64<<10) // XATTR_SIZE_MAX
	for name := range strings.SplitSeq(string(buf[:n]), "\x00") {
		if !strings.HasPrefix(name, userPrefix) {
			continue
		}
		c, err := unix.Fgetxattr(from, name, val)
		if err == nil {
			err = unix.Fsetxattr(to, name, val[:c], 0)
		}
		if err != nil {
			return errnoOf(err)
		}
	}
	return 0
}
