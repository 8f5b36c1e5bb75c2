package pinned

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// maxDepth bounds the components of a path.
const maxDepth = 256

// openDir opens the directory path by a walk from the root directory. Each component is a directory, no symbolic link,
// and belongs to root or to uid.
func openDir(path string, uid uint32) (*os.File, error) {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path {
		return nil, fmt.Errorf("%q: must be an absolute path in its shortest form", path)
	}
	at, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: "/", Err: err}
	}
	names := strings.Split(strings.Trim(path, "/"), "/")
	if path == "/" {
		names = nil
	}
	if len(names) > maxDepth {
		return nil, errors.Join(fmt.Errorf("%s is in more than %d directories", path, maxDepth), unix.Close(at))
	}
	for i, name := range names {
		here := "/" + strings.Join(names[:i+1], "/")
		next, err := unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		_ = unix.Close(at) //nolint:errcheck // nothing was written
		if err != nil {
			return nil, whatIsThere(here, err)
		}
		at = next
		if err := belongs(at, here, uid); err != nil {
			return nil, errors.Join(err, unix.Close(at))
		}
	}
	// The descriptor so far can neither be read nor, on old kernels, be cloned as a mount.
	fd, err := unix.Openat(at, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	_ = unix.Close(at) //nolint:errcheck // as above
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// whatIsThere names a symbolic link, for which the kernel has the errno of what is no directory.
func whatIsThere(path string, err error) error {
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return fmt.Errorf("%w: %s is a symbolic link or a file now", ErrChanged, path)
	}
	if errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("%w: %s does not exist any more", ErrChanged, path)
	}
	return &os.PathError{Op: "open", Path: path, Err: err}
}

func belongs(fd int, path string, uid uint32) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Uid != 0 && st.Uid != uid {
		return fmt.Errorf("%w: %s belongs to uid %d, who could exchange what is in it: it must belong to root or to the owner of the project, uid %d",
			ErrChanged, path, st.Uid, uid)
	}
	return nil
}
