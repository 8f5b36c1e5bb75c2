package shim

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"polis/internal/asuser"
)

// readOnlyTree returns a descriptor of an open directory, and of what is mounted in it, on a read-only
// mount: no fault in this program can write through it.
func readOnlyTree(dir *os.File) (*os.File, error) {
	fd, err := unix.OpenTree(int(dir.Fd()), "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err != nil {
		return nil, &os.PathError{Op: "open_tree", Path: dir.Name(), Err: err}
	}
	tree := os.NewFile(uintptr(fd), dir.Name())
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOSUID}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		return nil, errors.Join(&os.PathError{Op: "mount_setattr", Path: dir.Name(), Err: err}, tree.Close())
	}
	return tree, nil
}

// projectGit opens files of a project's git directory. Its owner can exchange them at any moment, for links, pipes
// and other directories: they are opened again each time, with the owner's rights, and only if they are regular.
type projectGit struct {
	project  *os.File
	uid, gid uint32
}

// The files that are opened, as gitrepository-layout(5) names them.
const (
	indexFile   = "index"
	excludeFile = "info/exclude"
)

// maxLine bounds a file of one line (PATH_MAX, and its prefix).
const maxLine = 8192

// check returns an error if the project has no git directory.
func (g *projectGit) check() error {
	return asuser.Do(g.uid, g.gid, func() error {
		own, common, err := g.dirs()
		if err != nil {
			return err
		}
		return errors.Join(own.Close(), common.Close())
	})
}

// open opens one of the files with flags of open(2).
func (g *projectGit) open(name string, flags int) (fd int, err error) {
	err = asuser.Do(g.uid, g.gid, func() error {
		own, common, err := g.dirs()
		if err != nil {
			return err
		}
		defer own.Close()
		defer common.Close()
		dir := own
		if name != indexFile {
			dir = common
		}
		fd, err = openAt(dir, name, flags)
		return err
	})
	if err != nil {
		return -1, err
	}
	return fd, nil
}

// dirs opens the git directory, and the one that it shares with others if it is that of a linked worktree.
func (g *projectGit) dirs() (own, common *os.File, err error) {
	git, err := g.openGit()
	if err != nil {
		return nil, nil, err
	}
	defer git.Close()
	fi, err := git.Stat()
	if err != nil {
		return nil, nil, err
	}
	if fi.IsDir() {
		own, err = duplicate(git)
	} else {
		own, err = g.linked(git)
	}
	if err != nil {
		return nil, nil, err
	}
	if common, err = commonDir(own); err != nil {
		return nil, nil, errors.Join(err, own.Close())
	}
	return own, common, nil
}

// commonDir opens what the file commondir of a git directory names, or the directory itself.
func commonDir(own *os.File) (*os.File, error) {
	fd, err := openAt(own, "commondir", unix.O_PATH|unix.O_CLOEXEC)
	if errors.Is(err, unix.ENOENT) {
		return duplicate(own)
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: "commondir", Err: err}
	}
	f := os.NewFile(uintptr(fd), "commondir")
	defer f.Close()
	text, err := readLine(f)
	if err != nil {
		return nil, err
	}
	return openFrom(own, text)
}

// openGit opens the .git. One of root's project, which is opened as root, must be root's.
func (g *projectGit) openGit() (*os.File, error) {
	fd, err := openAt(g.project, ".git", unix.O_PATH|unix.O_CLOEXEC)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: ".git", Err: err}
	}
	f := os.NewFile(uintptr(fd), ".git")
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	if err == nil && g.uid == 0 && st.Uid != 0 {
		err = fmt.Errorf(".git belongs to uid %d, and the project to root: %w", st.Uid, os.ErrPermission)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// linked opens the directory that the file .git of a linked worktree names.
func (g *projectGit) linked(git *os.File) (*os.File, error) {
	text, err := readLine(git)
	dir, ok := strings.CutPrefix(text, "gitdir: ")
	if err != nil || !ok {
		return nil, fmt.Errorf("%s names no git directory: %w", git.Name(), errors.Join(err, os.ErrInvalid))
	}
	return openFrom(g.project, dir)
}

// openFrom opens a directory by a path, absolute or relative to another one, which may be a symbolic link or contain
// some: the caller has the rights of who decides about them.
func openFrom(at *os.File, path string) (*os.File, error) {
	fd, err := unix.Openat(int(at.Fd()), path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// readLine reads a file of one line, which a descriptor of O_PATH refers to.
func readLine(f *os.File) (string, error) {
	fi, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !fi.Mode().IsRegular() || fi.Size() > maxLine {
		return "", &os.PathError{Op: "read", Path: f.Name(), Err: os.ErrInvalid}
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", &os.PathError{Op: "open", Path: f.Name(), Err: err}
	}
	r := os.NewFile(uintptr(fd), f.Name())
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, maxLine))
	return strings.TrimSpace(string(b)), err
}
