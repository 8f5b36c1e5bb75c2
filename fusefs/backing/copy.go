package backing

import (
	"context"
	"errors"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Times are the times of last access and modification, as utimensat(2) takes them.
func Times(st *unix.Statx_t) []unix.Timespec {
	return []unix.Timespec{{Sec: st.Atime.Sec, Nsec: int64(st.Atime.Nsec)}, {Sec: st.Mtime.Sec, Nsec: int64(st.Mtime.Nsec)}}
}

// UserXattrs is the prefix of the extended attributes that a view shows.
const UserXattrs = "user."

// CopyContent copies a whole file, sharing its blocks where the file system can.
func CopyContent(ctx context.Context, to, from int) syscall.Errno {
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
			return Errno(err)
		}
		for b := buf[:n]; len(b) > 0; {
			w, err := unix.Pwrite(to, b, off)
			if err != nil {
				return Errno(err)
			}
			off, b = off+int64(w), b[w:]
		}
	}
}

// CopyXattrs copies what a view shows of them.
func CopyXattrs(to, from int) syscall.Errno {
	buf := make([]byte, unix.PathMax*16) // XATTR_LIST_MAX
	n, err := unix.Flistxattr(from, buf)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return 0
	}
	if err != nil {
		return Errno(err)
	}
	val := make([]byte, 64<<10) // XATTR_SIZE_MAX
	for name := range strings.SplitSeq(string(buf[:n]), "\x00") {
		if !strings.HasPrefix(name, UserXattrs) {
			continue
		}
		c, err := unix.Fgetxattr(from, name, val)
		if err == nil {
			err = unix.Fsetxattr(to, name, val[:c], 0)
		}
		if err != nil {
			return Errno(err)
		}
	}
	return 0
}
