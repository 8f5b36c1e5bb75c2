package backing

import (
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// ResolveFlags are those of every open. Every name is one component, so BENEATH and NO_SYMLINKS say the same thing
// twice: nothing but an entry of the directory the descriptor stands for.
const ResolveFlags = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

// openTries bounds how often an open with O_NONBLOCK is repeated: the kernel reports a rename and a
// lease by the same errno.
const openTries = 1000

// OpenAt opens one component of a directory, whose descriptor may be O_PATH. It does not
// follow a symbolic link.
func OpenAt(dir int, name string, flags int, mode uint32) (int, syscall.Errno) {
	how := unix.OpenHow{
		Flags:   uint64(flags | unix.O_NOFOLLOW | unix.O_CLOEXEC),
		Mode:    uint64(mode),
		Resolve: ResolveFlags,
	}
	for try := 0; ; try++ {
		fd, err := unix.Openat2(dir, name, &how)
		switch err {
		case nil:
			return fd, 0
		case unix.EAGAIN, unix.EINTR: // a rename raced with the walk: openat2(2)
			if flags&unix.O_NONBLOCK != 0 && err == unix.EAGAIN && try == openTries {
				return -1, syscall.EAGAIN // a lease of another process (fcntl(2), F_SETLEASE)
			}
			runtime.Gosched()
			continue
		}
		return -1, Errno(err)
	}
}

const statMask = unix.STATX_BASIC_STATS | unix.STATX_BTIME

// StatAt stats a name in a directory, or with an empty name the descriptor.
func StatAt(dir int, name string) (unix.Statx_t, syscall.Errno) {
	var st unix.Statx_t
	flags := unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	err := unix.Statx(dir, name, flags, statMask, &st)
	return st, Errno(err)
}

// SameMount reports whether two directories are on one mount. rename(2) and link(2) work
// only within one.
func SameMount(a, b int) (bool, syscall.Errno) {
	var st [2]unix.Statx_t
	for i, fd := range []int{a, b} {
		if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &st[i]); err != nil {
			return false, Errno(err)
		}
	}
	if st[0].Mask&st[1].Mask&unix.STATX_MNT_ID == 0 { // Linux before 5.8
		return Dev(&st[0]) == Dev(&st[1]), 0
	}
	return st[0].Mnt_id == st[1].Mnt_id, 0
}

// ProcPath is the one place where a path is made, for the few calls that have no
// descriptor form. It names a descriptor, not a file.
func ProcPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// Close closes a descriptor. Linux releases it even when close reports an
// error, and nothing that is closed here has unwritten data of ours.
func Close(fd int) { _ = unix.Close(fd) }

// Dev packs a device number as the kernel does (12 bits major, 20 bits minor).
func Dev(st *unix.Statx_t) uint32 { return st.Dev_major<<20 | st.Dev_minor }

// IsDir reports whether attributes are those of a directory.
func IsDir(st *unix.Statx_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFDIR }
