package fusefs

import (
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
)

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
