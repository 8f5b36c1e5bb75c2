package worktree

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"polis/fusefs/fdtree"
)

// openScratch opens a directory in a scratch directory, whose owner can exchange it. It follows no
// link that leads out of the scratch directory.
func openScratch(path string) (*os.Root, error) {
	scratch, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer scratch.Close()
	return scratch.OpenRoot(filepath.Base(path))
}

// ownConfig replaces the configuration and the hooks of a repository that git has just made: git
// takes commands from both, so they are the daemon's own.
func ownConfig(root *os.Root, format string) error {
	if err := root.Remove("config"); err != nil {
		return err
	}
	f, err := root.OpenFile("config", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(sharedConfig(format))
	return errors.Join(err, f.Close(), root.Mkdir("hooks", 0o755))
}

// place renames what git made in a scratch directory to its path. The owner of the scratch
// directory can exchange it until then, so it is checked where only root can: it must be a directory
// of the owner's.
func (u *upper) place(scratch, name, to string) (err error) {
	held, err := os.MkdirTemp(u.w.polis(), "bare-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fdtree.Cleanup(held)) }()
	at := filepath.Join(held, name)
	if err := os.Rename(filepath.Join(scratch, name), at); err != nil {
		return err
	}
	fi, err := os.Lstat(at)
	if err != nil {
		return err
	}
	if !fi.IsDir() || os.Geteuid() == 0 && owner(fi) != u.spec.UID {
		return fmt.Errorf("%s is not the directory that git made (%s, uid %d)", filepath.Join(scratch, name), fi.Mode(), owner(fi))
	}
	// Git made it for every user. Only its owner has it open, and only root can exchange it here.
	if err := os.Chmod(at, 0o700); err != nil {
		return err
	}
	return os.Rename(at, to)
}

// ownerOf is for directories of the workspace, which belongs to root.
func ownerOf(path string) (Owner, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return Owner{}, err
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return Owner{}, fmt.Errorf("%s: the system reports no owner", path)
	}
	return Owner{UID: st.Uid, GID: st.Gid}, nil
}
