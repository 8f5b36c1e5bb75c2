package fusefs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
	"polis/fusefs/inode"
)

// open opens the object by one of its names, or by a descriptor of an open
// file once it has none, and checks that it is the one that was meant. Called
// with the name lock held.
func (fs *FS) open(n *inode.Node, flags int) (int, unix.Statx_t, syscall.Errno) {
	if n == fs.tree.Root {
		fd, e := backing.OpenAt(fs.roots[0], ".", flags, 0)
		st, e2 := backing.StatAt(fs.roots[0], "")
		if e == 0 && e2 != 0 {
			backing.Close(fd)
			e = e2
		}
		return fd, st, e
	}
	fd, st, last := fs.openNamed(n, flags)
	if last == 0 {
		return fd, st, 0
	}
	if fd, ok := n.Files.Dup(); ok {
		st, e := backing.StatAt(fd, "")
		if e != 0 || flags&unix.O_PATH != 0 {
			return fd, st, e
		}
		defer backing.Close(fd)
		again, err := unix.Open(backing.ProcPath(fd), flags&^unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		return again, st, backing.Errno(err)
	}
	return -1, unix.Statx_t{}, last
}

// openNamed is open by name only. The open files of the inode may be locked.
func (fs *FS) openNamed(n *inode.Node, flags int) (int, unix.Statx_t, syscall.Errno) {
	last := syscall.ESTALE
	for i := 0; ; i++ {
		r, ok := fs.tree.Nth(n, i)
		if !ok {
			return -1, unix.Statx_t{}, last
		}
		p, e := fs.at(r.Parent, r.Name)
		if e != 0 {
			last = e
			continue
		}
		fd, e := backing.OpenAt(p.dir.fd, r.Name, flags, 0)
		fs.dirs.put(p.dir)
		if e != 0 {
			last = backing.Stale(e)
			continue
		}
		st, e := backing.StatAt(fd, "")
		if e == 0 && n.Is(&st) {
			return fd, st, 0
		}
		backing.Close(fd)
		last = syscall.ESTALE
	}
}

// stat reads the attributes by name, or by an open file, or from memory when
// the last link is gone. Called with the name lock held.
func (fs *FS) stat(n *inode.Node) (unix.Statx_t, syscall.Errno) {
	if n == fs.tree.Root {
		return backing.StatAt(fs.roots[0], "")
	}
	last := syscall.ESTALE
	for i := 0; ; i++ {
		r, ok := fs.tree.Nth(n, i)
		if !ok {
			break
		}
		p, e := fs.at(r.Parent, r.Name)
		if e != 0 {
			last = backing.Stale(e)
			continue
		}
		st, e := backing.StatAt(p.dir.fd, r.Name)
		fs.dirs.put(p.dir)
		if e == 0 && n.Is(&st) {
			return st, 0
		}
		last = syscall.ESTALE
	}
	if fd, ok := n.Files.Dup(); ok {
		defer backing.Close(fd)
		return backing.StatAt(fd, "")
	}
	return unix.Statx_t{}, last
}

// attr translates attributes. Inode numbers of another device are mixed so
// that two files of one view never share a number.
func (fs *FS) attr(st *unix.Statx_t, out *fuse.Attr) {
	ino := st.Ino
	if dev := backing.Dev(st); dev != fs.rootDev {
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
