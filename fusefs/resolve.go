package fusefs

import (
	"strconv"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Every name is one component, so BENEATH and NO_SYMLINKS say the same thing
// twice: nothing but an entry of the directory the descriptor stands for.
const resolveFlags = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

func openAt(dir int, name string, flags int, mode uint32) (int, syscall.Errno) {
	how := unix.OpenHow{
		Flags:   uint64(flags | unix.O_NOFOLLOW | unix.O_CLOEXEC),
		Mode:    uint64(mode),
		Resolve: resolveFlags,
	}
	for {
		fd, err := unix.Openat2(dir, name, &how)
		switch err {
		case nil:
			return fd, 0
		case unix.EAGAIN, unix.EINTR: // a rename raced with the walk: openat2(2)
			if flags&unix.O_NONBLOCK != 0 && err == unix.EAGAIN {
				return -1, syscall.EAGAIN
			}
			continue
		}
		return -1, errnoOf(err)
	}
}

const statMask = unix.STATX_BASIC_STATS | unix.STATX_BTIME

// statAt stats a name in a directory, or with an empty name the descriptor.
func statAt(dir int, name string) (unix.Statx_t, syscall.Errno) {
	var st unix.Statx_t
	flags := unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	err := unix.Statx(dir, name, flags, statMask, &st)
	return st, errnoOf(err)
}

// procFD is the one place a path is made, for the few calls that have no
// descriptor form. It names a descriptor, not a file.
func procFD(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// open opens the object by one of its names, or by a descriptor of an open
// file once it has none, and checks that it is the one that was meant. Called
// with ns held.
func (fs *FS) open(n *node, flags int) (int, unix.Statx_t, syscall.Errno) {
	if n == fs.tree.root {
		fd, e := openAt(fs.roots[0], ".", flags, 0)
		st, e2 := statAt(fs.roots[0], "")
		if e == 0 && e2 != 0 {
			closeFD(fd)
			e = e2
		}
		return fd, st, e
	}
	fd, st, last := fs.openNamed(n, flags)
	if last == 0 {
		return fd, st, 0
	}
	if fd, ok := n.io.dup(); ok {
		st, e := statAt(fd, "")
		if e != 0 || flags&unix.O_PATH != 0 {
			return fd, st, e
		}
		defer closeFD(fd)
		again, err := unix.Open(procFD(fd), flags&^unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		return again, st, errnoOf(err)
	}
	return -1, unix.Statx_t{}, last
}

// openNamed is open by name only. io.mu may be held.
func (fs *FS) openNamed(n *node, flags int) (int, unix.Statx_t, syscall.Errno) {
	last := syscall.ESTALE
	for i := 0; ; i++ {
		r, ok := fs.tree.nth(n, i)
		if !ok {
			return -1, unix.Statx_t{}, last
		}
		p, e := fs.at(r.parent, r.name)
		if e != 0 {
			last = e
			continue
		}
		fd, e := openAt(p.dir.fd, r.name, flags, 0)
		fs.dirs.put(p.dir)
		if e != 0 {
			last = swapped(e)
			continue
		}
		st, e := statAt(fd, "")
		if e == 0 && n.is(&st) {
			return fd, st, 0
		}
		closeFD(fd)
		last = syscall.ESTALE
	}
}

// stat reads the attributes by name, or by an open file, or from memory when
// the last link is gone. Called with ns held.
func (fs *FS) stat(n *node) (unix.Statx_t, syscall.Errno) {
	if n == fs.tree.root {
		return statAt(fs.roots[0], "")
	}
	last := syscall.ESTALE
	for i := 0; ; i++ {
		r, ok := fs.tree.nth(n, i)
		if !ok {
			break
		}
		p, e := fs.at(r.parent, r.name)
		if e != 0 {
			last = swapped(e)
			continue
		}
		st, e := statAt(p.dir.fd, r.name)
		fs.dirs.put(p.dir)
		if e == 0 && n.is(&st) {
			return st, 0
		}
		last = syscall.ESTALE
	}
	if fd, ok := n.io.dup(); ok {
		defer closeFD(fd)
		return statAt(fd, "")
	}
	return unix.Statx_t{}, last
}

// attr translates attributes. Inode numbers of another device are mixed so
// that two files of one view never share a number.
func (fs *FS) attr(st *unix.Statx_t, out *fuse.Attr) {
	ino := st.Ino
	if dev := devOf(st); dev != fs.rootDev {
		ino ^= uint64(dev) << 32
	}
	*out = fuse.Attr{
		Ino: ino, Size: st.Size, Blocks: st.Blocks,
		Atime: uint64(st.Atime.Sec), Atimensec: st.Atime.Nsec,
		Mtime: uint64(st.Mtime.Sec), Mtimensec: st.Mtime.Nsec,
		Ctime: uint64(st.Ctime.Sec), Ctimensec: st.Ctime.Nsec,
		Mode: uint32(st.Mode), Nlink: st.Nlink,
		Owner: fuse.Owner{Uid: st.Uid, Gid: st.Gid},
		Rdev:  uint32(unix.Mkdev(st.Rdev_major, st.Rdev_minor)), Blksize: st.Blksize,
	}
	if fs.acls && out.Mode&unix.S_IFMT != unix.S_IFLNK {
		out.Mode &^= unix.S_IRWXG
	}
}
