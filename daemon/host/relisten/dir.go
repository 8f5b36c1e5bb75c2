package relisten

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// dir is the directory of a socket.
type dir struct {
	path  string // without symbolic links
	fd    int    // O_PATH
	fixed bool
	parts []part // of path, from the root
}

// part is a directory of a path, as it was.
type part struct {
	name     string
	uid, gid int
	mode     uint32
}

// errFixed reports that the directory which others have mounted is gone.
var errFixed = errors.New("the directory was removed, and what uses it has only the old one")

func openDir(path string, fixed bool) (*dir, error) {
	path, err := filepath.Abs(path)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return nil, err
	}
	d := &dir{path: path, fixed: fixed}
	at := "/"
	for _, name := range strings.Split(strings.Trim(path, "/"), "/") {
		at = filepath.Join(at, name)
		var st unix.Stat_t
		if err := unix.Lstat(at, &st); err != nil {
			return nil, &os.PathError{Op: "stat", Path: at, Err: err}
		}
		d.parts = append(d.parts, part{name: name, uid: int(st.Uid), gid: int(st.Gid), mode: st.Mode & 0o7777})
	}
	d.fd, err = unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return d, nil
}

func (d *dir) stat(name string) (*unix.Stat_t, error) {
	var st unix.Stat_t
	return &st, unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW)
}

// follow opens the directory that the path leads to now, and makes it if there is none. It reports whether this is
// another one than before.
func (d *dir) follow() (moved bool, err error) {
	var is, there unix.Stat_t
	if err := unix.Fstat(d.fd, &is); err != nil {
		return false, fmt.Errorf("stat: %w", err)
	}
	if d.fixed {
		if is.Nlink == 0 {
			return false, errFixed
		}
		return false, nil
	}
	if unix.Stat(d.path, &there) == nil && there.Ino == is.Ino && there.Dev == is.Dev {
		return false, nil
	}
	fd, err := d.walk()
	if err != nil {
		return false, err
	}
	_ = unix.Close(d.fd) //nolint:errcheck // it was only a place
	d.fd = fd
	return true, nil
}

// walk opens the directories of the path one below the other. It makes those that are missing, and refuses those that
// another user can change.
func (d *dir) walk() (int, error) {
	fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: "/", Err: err}
	}
	at := "/"
	for _, p := range d.parts {
		at = filepath.Join(at, p.name)
		next, err := p.open(fd)
		_ = unix.Close(fd) //nolint:errcheck // it was only a place
		if err != nil {
			return -1, fmt.Errorf("%s: %w", at, err)
		}
		fd = next
	}
	return fd, nil
}

// open opens a directory of the path, and makes it if it is missing.
func (p part) open(parent int) (fd int, err error) {
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	made := false
	fd, err = unix.Openat(parent, p.name, flags, 0)
	if errors.Is(err, unix.ENOENT) {
		if err = unix.Mkdirat(parent, p.name, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
			return -1, err
		}
		made = err == nil // otherwise another process of polis was faster
		fd, err = unix.Openat(parent, p.name, flags, 0)
	}
	if err != nil {
		return -1, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, unix.Close(fd))
			fd = -1
		}
	}()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fd, err
	}
	const others, sticky = 0o022, 0o1000
	switch {
	case int(st.Uid) != 0 && int(st.Uid) != os.Geteuid():
		return fd, fmt.Errorf("belongs to user %d", st.Uid)
	case st.Mode&others != 0 && st.Mode&sticky == 0:
		return fd, fmt.Errorf("other users can change it (mode %#o)", st.Mode&0o7777)
	case made:
		return fd, access{uid: p.uid, gid: p.gid, mode: p.mode}.set(fd, &st)
	}
	return fd, nil
}
