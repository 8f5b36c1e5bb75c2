package fusefs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
	"polis/fusefs/conn"
)

// FS embeds no default implementation: an operation that is missing does not compile, and one
// that is not supported is refused explicitly below.
var _ conn.FileSystem = (*FS)(nil)

// StatFs returns the figures of the file system of the main backing directory.
func (fs *FS) StatFs(_ request, _ *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	var st syscall.Statfs_t
	if err := syscall.Fstatfs(fs.layers.Main(), &st); err != nil {
		// An O_PATH descriptor is refused before Linux 3.12 only.
		return status(backing.Errno(err))
	}
	out.FromStatfsT(&st)
	return fuse.OK
}

// Access is never asked for: the kernel checks permissions itself
// (default_permissions).
func (fs *FS) Access(request, *fuse.AccessIn) fuse.Status { return fuse.ENOSYS }

// Ioctl is refused: flags and attributes set with it would bypass the guard.
func (fs *FS) Ioctl(_ request, in *fuse.IoctlIn, _ []byte, _ *fuse.IoctlOut, _ []byte) fuse.Status {
	fs.guard.Count(OpIoctl, true, syscall.ENOTTY, 0)
	return fuse.Status(unix.ENOTTY)
}

// Locks are the kernel's business: the view is the only way to the files, so
// locks kept in the kernel's own inode are seen by everybody.

// GetLk is never asked for.
func (fs *FS) GetLk(request, *fuse.LkIn, *fuse.LkOut) fuse.Status { return fuse.ENOSYS }

// SetLk is never asked for.
func (fs *FS) SetLk(request, *fuse.LkIn) fuse.Status { return fuse.ENOSYS }

// SetLkw is never asked for.
func (fs *FS) SetLkw(request, *fuse.LkIn) fuse.Status { return fuse.ENOSYS }
