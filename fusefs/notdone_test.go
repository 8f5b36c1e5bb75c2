package fusefs

import (
	"os"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// What a view does not do, as docs/view.md has it, and what it does.
func TestWhatAViewDoesNotDo(t *testing.T) {
	v := mountView(t)
	write(t, v.raw("file"), "content")
	write(t, v.raw("other"), "other")
	require.NoError(t, os.Mkdir(v.raw("dir"), 0o755))
	fd, err := unix.Open(v.in("file"), unix.O_RDWR|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	ioctl := func(req uint, arg unsafe.Pointer) error {
		if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(req), uintptr(arg)); e != 0 {
			return e
		}
		return nil
	}
	var word [64]byte
	for what, c := range map[string]struct {
		err  error
		want syscall.Errno
	}{
		"character device":  {unix.Mknod(v.in("c"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))), unix.EPERM},
		"block device":      {unix.Mknod(v.in("b"), unix.S_IFBLK|0o600, int(unix.Mkdev(7, 0))), unix.EPERM},
		"security xattr":    {unix.Setxattr(v.in("file"), "security.x", []byte("x"), 0), unix.EPERM},
		"trusted xattr":     {unix.Setxattr(v.in("file"), "trusted.x", []byte("x"), 0), unix.EPERM},
		"ACL":               {unix.Setxattr(v.in("file"), "system.posix_acl_access", []byte("\x02\x00\x00\x00"), 0), unix.EOPNOTSUPP},
		"own virtual xattr": {unix.Setxattr(v.in("file"), "user.polis.x", []byte("x"), 0), unix.EPERM},
		"inode flags, get":  {ioctl(unix.FS_IOC_GETFLAGS, unsafe.Pointer(&word)), unix.ENOTTY},
		"inode flags, set":  {ioctl(unix.FS_IOC_SETFLAGS, unsafe.Pointer(&word)), unix.ENOTTY},
		"reflink":           {unix.IoctlFileClone(fd, fd), unix.EOPNOTSUPP},
		"whiteout":          {rename2(v.in("file"), v.in("new"), unix.RENAME_WHITEOUT), unix.EINVAL},
	} {
		require.ErrorIs(t, c.err, c.want, what)
	}
	// These it does.
	n, err := unix.Open(v.in("dir"), unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	require.NoError(t, err)
	require.NoError(t, linkFD(n, v.in("linked")))
	require.NoError(t, unix.Close(n))
	n, err = unix.Open(v.in("other"), unix.O_RDWR|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	_, err = unix.CopyFileRange(fd, nil, n, nil, 4, 0)
	require.NoError(t, err)
	require.NoError(t, unix.Fallocate(n, 0, 0, 1<<16))
	require.NoError(t, unix.Flock(n, unix.LOCK_EX|unix.LOCK_NB))
	require.NoError(t, unix.FcntlFlock(uintptr(n), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}))
	require.NoError(t, unix.Setxattr(v.in("file"), "user.mine", []byte("x"), 0))
	require.NoError(t, rename2(v.in("file"), v.in("other"), unix.RENAME_EXCHANGE))
	require.NoError(t, unix.Mkfifo(v.in("fifo"), 0o600))
	require.NoError(t, unix.Close(n))
}
