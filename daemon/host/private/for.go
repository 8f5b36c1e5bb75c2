package private

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"polis/daemon/host/acl"
)

// For makes a directory of root's that root changes and one user can enter and list, nobody else; or closes one that
// exists. The user has an entry in an access control list, because gid, the group of the user, can have other members.
// On a file system without such lists the group has that access instead, which byGroup reports.
//
// A directory that is not root's, or that For has given to another user, is not changed: ErrOwner. The parent
// directory may be changed by others, so that what has the name can be a directory of another workspace. An error of
// check, which may be nil and gets the directory that is changed, is returned before anything is.
func For(path string, uid, gid uint32, check func(dir *os.File) error) (byGroup bool, err error) {
	err = os.Mkdir(path, rootOnly)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return false, err
	}
	fresh := err == nil // it can have inherited a list
	err = change(path, func(d *os.File, st *unix.Stat_t) error {
		if me := uint32(os.Geteuid()); st.Uid != me {
			return ownerError(path, st.Uid, me)
		}
		if is, ok := admitted(d); !fresh && ok && is != uid {
			return ownerError(path, is, uid)
		}
		if check != nil {
			if err := check(d); err != nil {
				return err
			}
		}
		byGroup, err = admit(d, st, uid, gid)
		return err
	})
	return byGroup, err
}

// listFor is the access control list that For sets.
func listFor(uid uint32) []byte {
	const enters = acl.Read | acl.Execute
	return acl.Encode(acl.Entry{Tag: acl.UserObj, Perm: 7}, acl.Entry{Tag: acl.User, Perm: enters, ID: uid},
		acl.Entry{Tag: acl.GroupObj}, acl.Entry{Tag: acl.Mask, Perm: enters}, acl.Entry{Tag: acl.Other})
}

// admitted returns the user that For has given a directory to.
func admitted(d *os.File) (uid uint32, ok bool) {
	list, err := acl.Of(int(d.Fd()))
	if err != nil {
		return 0, false
	}
	for _, e := range list {
		if e.Tag == acl.User {
			return e.ID, bytes.Equal(acl.Encode(list...), listFor(e.ID))
		}
	}
	return 0, false
}

func admit(d *os.File, st *unix.Stat_t, uid, gid uint32) (byGroup bool, err error) {
	if uid == st.Uid { // root's, or that of a polisd that is not root
		return false, errors.Join(clearList(d), setMode(d, st, rootOnly))
	}
	if is, ok := admitted(d); ok && is == uid && st.Gid == gid {
		return false, nil
	}
	// The list gives the group nothing. A program that compares mode bits and knows no lists, as earlier versions of
	// polis, finds that the user's group can enter.
	if err := d.Chown(-1, int(gid)); err != nil {
		return false, err
	}
	// One call sets the mode too: there is no moment at which the user cannot enter.
	err = unix.Fsetxattr(int(d.Fd()), acl.Attribute, listFor(uid), 0)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return true, groupOnly(d, st, gid)
	}
	if err != nil {
		return false, &os.PathError{Op: "set an access control list on", Path: d.Name(), Err: err}
	}
	return false, nil
}

// groupOnly gives a directory to a group, which can enter and list it.
func groupOnly(d *os.File, st *unix.Stat_t, gid uint32) error {
	const mode = 0o750
	if st.Gid == gid {
		return setMode(d, st, mode)
	}
	// The old group loses its access before the new one gets it.
	if err := setMode(d, st, rootOnly); err != nil {
		return err
	}
	if err := d.Chown(-1, int(gid)); err != nil {
		return err
	}
	st.Mode = st.Mode&^0o777 | rootOnly
	return setMode(d, st, mode)
}

func clearList(d *os.File) error {
	err := unix.Fremovexattr(int(d.Fd()), acl.Attribute)
	if err == nil || errors.Is(err, unix.ENODATA) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	return &os.PathError{Op: "remove the access control list of", Path: d.Name(), Err: err}
}

// Enters reports whether the mode and the access control list of a directory let a user with one group enter it.
// It follows symbolic links.
func Enters(path string, uid, gid uint32) (bool, error) {
	d, err := os.OpenFile(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, err
	}
	defer d.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(d.Fd()), &st); err != nil {
		return false, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	list, err := acl.Of(int(d.Fd()))
	if err != nil {
		return false, fmt.Errorf("%s: %w", path, err)
	}
	return uid == 0 || acl.Allowed(list, st.Uid, st.Gid, uid, gid, acl.Execute), nil
}
