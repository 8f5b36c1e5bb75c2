package walk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
)

// Own opens a directory of root's, such as that of a workspace, in which nobody else can exchange a name. Its path,
// which is absolute, leads through directories of root's and of uid only, and through no symbolic link but root's
// own. The descriptor is for *at calls and paths below [Path].
func Own(path string, uid uint32) (*os.File, error) {
	if !filepath.IsAbs(path) {
		return nil, &os.PathError{Op: "open", Path: path, Err: unix.EINVAL}
	}
	dir, err := walk(-1, path, owners(uid))
	if err != nil {
		return nil, err
	}
	if err := closed(dir, path); err != nil {
		dir.Close()
		return nil, err
	}
	return dir, nil
}

// closed returns an error unless dir is a directory of root's that nobody else can change.
func closed(dir *os.File, path string) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return &os.PathError{Op: "open", Path: path, Err: unix.ENOTDIR}
	case !roots(&st):
		return fmt.Errorf("open %s: %w: it belongs to uid %d", path, ErrForeign, st.Uid)
	case st.Mode&0o022 != 0:
		return fmt.Errorf("open %s: %w: others can write in it (mode %#o)", path, ErrForeign, st.Mode&0o7777)
	}
	return nil
}

// Refused converts ErrForeign of a workspace to WORKSPACE_INVALID, and returns other errors, and nil, as they are.
func Refused(what string, err error) error {
	if !errors.Is(err, ErrForeign) {
		return err
	}
	return api.Errorf(api.CodeWorkspaceInvalid, "%s: %w", what, err).
		WithHint("each directory above a workspace must belong to root or to the owner of the project, and none may be a symbolic link of a user: chown it, or make a workspace elsewhere (/srv/workspaces/NAME)")
}

// Below opens a file or directory by a path relative to dir, with O_PATH. It follows no symbolic link but root's own
// in directories of root's, and each component belongs to root or to uid.
func Below(dir *os.File, path string, uid uint32) (*os.File, error) {
	if !filepath.IsLocal(path) {
		return nil, &os.PathError{Op: "open", Path: path, Err: unix.EINVAL}
	}
	return walk(int(dir.Fd()), path, owners(uid))
}

// File opens a file by a path relative to dir as Below does, with flags of open(2). The last component is not followed
// if it is a symbolic link.
func File(dir *os.File, path string, uid uint32, flags int) (int, error) {
	in := dir
	if parent := filepath.Dir(path); parent != "." {
		var err error
		if in, err = Below(dir, parent, uid); err != nil {
			return -1, err
		}
		defer in.Close()
	}
	fd, err := unix.Openat(int(in.Fd()), filepath.Base(path), flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

// Inside opens a path below dir as how says. It leads through no symbolic link, and leaves dir by no name: for files in a
// directory that its user can change.
func Inside(dir *os.File, path string, how unix.OpenHow) (*os.File, error) {
	how.Flags |= unix.O_CLOEXEC
	how.Resolve |= unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS
	fd, err := unix.Openat2(int(dir.Fd()), path, &how)
	if err != nil {
		return nil, &os.PathError{Op: "openat2", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// owners is the rule of Own and Below.
func owners(uid uint32) rule {
	return func(dir, st *unix.Stat_t, _ bool) error {
		if st.Mode&unix.S_IFMT == unix.S_IFLNK {
			return linkOf(dir, st)
		}
		if !roots(st) && st.Uid != uid {
			return fmt.Errorf("%w: it belongs to uid %d, and must belong to root or to uid %d", ErrForeign, st.Uid, uid)
		}
		return nil
	}
}

// Path is a path of an open directory, or one below it. It is valid in this process as long as dir is open.
func Path(dir *os.File, rel string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), rel)
}

// Placed is Own for a caller that does not know yet who may own directories on the way: one user may. owner is nil if
// all belong to root.
func Placed(path string) (dir *os.File, owner *uint32, err error) {
	dir, err = openPlaced(path, &owner, func(*unix.Stat_t) {})
	if err == nil {
		err = closed(dir, path)
	}
	if err != nil {
		if dir != nil {
			dir.Close()
		}
		return nil, nil, err
	}
	return dir, owner, nil
}

// Exchangeable returns who beside root can exchange what is at path, which is absolute: "" if nobody can. Directories on
// the way, as far as they exist, can belong to one user, or be ones in which others can write and rename. ErrForeign if
// they belong to several users, or if a user's symbolic link is on the way.
func Exchangeable(path string) (by string, err error) {
	var owner *uint32
	dir, err := openPlaced(path, &owner, func(st *unix.Stat_t) {
		if by == "" && st.Mode&unix.S_IFMT == unix.S_IFDIR && st.Mode&0o022 != 0 && st.Mode&unix.S_ISVTX == 0 {
			by = "all who can write in a directory above it"
		}
	})
	if err == nil {
		err = dir.Close()
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if owner != nil {
		by = userText(*owner)
	}
	return by, err
}

// userText names a user as id(1) does.
func userText(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(id); err == nil {
		return fmt.Sprintf("uid %s (%s)", id, u.Username)
	}
	return "uid " + id
}

// openPlaced opens path if one user beside root, owner, owns directories on the way. It calls seen for those of root's.
func openPlaced(path string, owner **uint32, seen func(*unix.Stat_t)) (*os.File, error) {
	if !filepath.IsAbs(path) {
		return nil, &os.PathError{Op: "open", Path: path, Err: unix.EINVAL}
	}
	return walk(-1, path, func(dir, st *unix.Stat_t, _ bool) error {
		switch {
		case st.Mode&unix.S_IFMT == unix.S_IFLNK:
			return linkOf(dir, st)
		case roots(st):
			seen(st)
		case *owner == nil:
			uid := st.Uid
			*owner = &uid
		case st.Uid != **owner:
			return fmt.Errorf("%w: it belongs to uid %d, and what is above it to uid %d", ErrForeign, st.Uid, **owner)
		}
		return nil
	})
}

// Named returns err with path instead of the paths below dir that [Path] has returned.
func Named(err error, dir *os.File, path string) error {
	var e *api.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		e.Message = strings.ReplaceAll(e.Message, Path(dir, ""), path+"/")
		return err
	}
	return named{err, strings.ReplaceAll(err.Error(), Path(dir, ""), path+"/")}
}

type named struct {
	error
	text string
}

func (n named) Error() string { return n.text }
func (n named) Unwrap() error { return n.error }
