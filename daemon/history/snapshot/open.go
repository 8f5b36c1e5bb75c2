package snapshot

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// openBelow opens a path below a directory without following a link, crossing a mount or leaving it.
func openBelow(dir *os.File, path string, flags uint64) (*os.File, error) {
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV}
	for {
		fd, err := unix.Openat2(int(dir.Fd()), path, &how)
		if err == nil {
			return os.NewFile(uintptr(fd), path), nil
		}
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return nil, &fs.PathError{Op: "openat2", Path: path, Err: err}
		}
	}
}
