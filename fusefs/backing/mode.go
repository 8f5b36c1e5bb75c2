package backing

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// Chmod sets the mode of what an O_PATH or real descriptor stands for. Linux
// 6.6 has a call for it; before that only /proc names a descriptor.
func Chmod(fd int, mode uint32) syscall.Errno {
	err := unix.Fchmodat(fd, "", mode, unix.AT_EMPTY_PATH)
	if errors.Is(err, unix.EOPNOTSUPP) {
		st, e := StatAt(fd, "")
		if e != 0 {
			return e
		}
		if st.Mode&unix.S_IFMT == unix.S_IFLNK {
			return syscall.EOPNOTSUPP
		}
		err = unix.Chmod(ProcPath(fd), mode)
	}
	return Errno(err)
}

// SetOwnerMode gives a new object to its creator with exactly the mode asked for: the
// server's umask and the clearing of set-id bits by chown do not count.
func SetOwnerMode(fd, uid, gid int, mode uint32) syscall.Errno {
	st, e := StatAt(fd, "")
	if e != 0 {
		return e
	}
	if int(st.Uid) != uid || (gid >= 0 && int(st.Gid) != gid) {
		if e := Errno(unix.Fchownat(fd, "", uid, gid, unix.AT_EMPTY_PATH)); e != 0 {
			return e
		}
	} else if uint32(st.Mode)&0o7777 == mode {
		return 0
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return 0
	}
	return Chmod(fd, mode)
}
