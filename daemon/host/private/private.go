package private

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Umask is that of polisd and its shims, whatever they inherit. What is private has its mode from this package; what
// is not, such as the files that a merge writes in the project, has the mode that git gives it for most users.
const Umask = 0o022

const (
	rootOnly   = 0o700
	searchable = 0o711
	readable   = 0o755
)

// Dir makes a directory that only root can enter, with its missing parents.
func Dir(path string) error { return ensure(path, rootOnly) }

// Within makes a directory of root's, with its missing parents, in a directory that For has closed: who can reach
// it, the owner of the project or an agent that has it mounted, can read it.
func Within(path string) error { return ensure(path, readable) }

// Shared makes a directory that every user can pass, and nobody but root can list, with its missing parents. It is
// for directories with things that have modes of their own. One that exists is left as it is, unless repair: then
// nobody but root can list it afterwards.
func Shared(path string, repair bool) error {
	if err := os.MkdirAll(filepath.Dir(path), readable); err != nil {
		return err
	}
	err := os.Mkdir(path, rootOnly)
	if errors.Is(err, fs.ErrExist) {
		if !repair {
			return os.MkdirAll(path, rootOnly) // it must be a directory
		}
		err = nil
	}
	if err != nil {
		return err
	}
	return change(path, func(d *os.File, st *unix.Stat_t) error { return setMode(d, st, searchable) })
}

// Owned makes a directory that belongs to a user and that only this user and root can enter. Its missing parents
// are those of Within. One that exists is left as it is: the user decides about it.
func Owned(path string, uid, gid int) error {
	err := os.Mkdir(path, rootOnly)
	if errors.Is(err, fs.ErrNotExist) {
		if err = Within(filepath.Dir(path)); err == nil {
			err = os.Mkdir(path, rootOnly)
		}
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return change(path, func(d *os.File, st *unix.Stat_t) error {
		return errors.Join(setMode(d, st, rootOnly), d.Chown(uid, gid))
	})
}

// Group makes a directory of root's that one group can enter and list, nobody else; with a gid below 0 only root can.
// Its parent exists.
func Group(path string, gid int) error {
	if err := os.Mkdir(path, rootOnly); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return change(path, func(d *os.File, st *unix.Stat_t) error { return groupOnly(d, st, uint32(max(gid, 0))) })
}

// ensure makes a directory of root's with a mode, or gives one that exists this mode. A symbolic link to a
// directory, by which an administrator moved it elsewhere, is left as it is.
func ensure(path string, mode uint32) error {
	err := os.Mkdir(path, rootOnly)
	if errors.Is(err, fs.ErrNotExist) {
		if err = ensure(filepath.Dir(path), mode); err == nil {
			err = os.Mkdir(path, rootOnly)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	err = change(path, func(d *os.File, st *unix.Stat_t) error { return setMode(d, st, mode) })
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return os.MkdirAll(path, rootOnly) // nil if it leads to a directory
	}
	return err
}

// change opens a directory, which is no symbolic link, and calls f with it.
func change(path string, f func(*os.File, *unix.Stat_t) error) error {
	d, err := os.OpenFile(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer d.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(d.Fd()), &st); err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return f(d, &st)
}

// setMode sets the mode of an open directory. It keeps the set-group-ID and sticky bits.
func setMode(d *os.File, st *unix.Stat_t, mode uint32) error {
	if st.Mode&0o777 == mode {
		return nil
	}
	if err := unix.Fchmod(int(d.Fd()), st.Mode&0o7000|mode); err != nil {
		return &os.PathError{Op: "chmod", Path: d.Name(), Err: err}
	}
	return nil
}

// ErrOwner is the error of For for a directory that is not root's, or that is another user's.
var ErrOwner = errors.New("belongs to another user")

// ownerError names the users.
func ownerError(path string, is, want uint32) error {
	return fmt.Errorf("%s %w: uid %d, not uid %d", path, ErrOwner, is, want)
}
