package shim

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"polis/fusefs/idmap"
	"polis/fusefs/overlayfs"
)

// openDir returns a descriptor of a directory, never of a link to one.
func openDir(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// openBacking opens the tree that the view shows: the project itself in a workspace without git.
func (s *Shim) openBacking() (*os.File, error) {
	sp := s.Spec
	if !sp.Git {
		if !sp.AsUser {
			return duplicate(s.project)
		}
		if sp.Project.UID != 0 {
			return nil, fmt.Errorf("%s belongs to uid %d: only a directory of root's is shown as uid %d's", sp.Project.Path, sp.Project.UID, sp.UID)
		}
		return idmap.Open(s.project, uint32(sp.UID), uint32(sp.GID))
	}
	root, err := openDir(s.at(sp.Tree))
	if err != nil || sp.Upper == "" || sp.Lower != "" {
		return root, err
	}
	// Without the mount there is an empty directory, and every file would seem to be deleted.
	if is, err := overlayfs.IsOverlay(fmt.Sprintf("/proc/self/fd/%d", root.Fd())); err != nil || !is {
		return nil, errors.Join(err, root.Close(), fmt.Errorf("no overlay is mounted at %s", sp.Tree))
	}
	return root, nil
}

// openOwn opens the directory of what the agent itself takes of the disk: what it changed, if it
// shares a base tree, else its whole worktree, of which root is a descriptor.
func (s *Shim) openOwn(root *os.File) (*os.File, error) {
	if s.Spec.Upper != "" {
		return openDir(s.at(s.Spec.Upper))
	}
	return duplicate(root)
}

// openWritten opens the directory that has the files which the agent has open for writing. What can be written of a
// worktree with layers is in the upper one, and an overlay does not report a mapping: the kernel maps the file below.
func (s *Shim) openWritten() (*os.File, error) {
	switch sp := s.Spec; {
	case sp.Upper != "":
		return openDir(s.at(sp.Upper))
	case !sp.Git:
		return duplicate(s.project)
	default:
		return openDir(s.at(sp.Tree))
	}
}

func duplicate(dir *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(dir.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("hold %s: %w", dir.Name(), err)
	}
	return os.NewFile(uintptr(fd), dir.Name()), nil
}
