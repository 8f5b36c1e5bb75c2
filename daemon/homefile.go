package daemon

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"polis/daemon/setting"
	"polis/daemon/shim/wire"
)

// maxHomeFile bounds a file brought into an agent's home, in bytes.
const maxHomeFile = 4 << 20

// openHomeFile opens a regular file of the owner's below home. Links are followed as long as they
// stay there. A file of another user is refused: the agent must not get what its owner did not
// share.
func openHomeFile(home, rel string, owner int) (*os.File, error) {
	dir, err := os.Open(home)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	fd, err := unix.Openat2(int(dir.Fd()), rel, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS})
	switch {
	case errors.Is(err, unix.EXDEV):
		return nil, fmt.Errorf("it leads out of %s: %w", home, err)
	case err != nil:
		return nil, err
	}
	f := os.NewFile(uintptr(fd), rel)
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	switch {
	case err != nil:
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		err = errors.New("it is not a regular file")
	case int(st.Uid) != owner:
		err = fmt.Errorf("it belongs to user %d, not to the project's owner", st.Uid)
	case st.Size > maxHomeFile:
		err = fmt.Errorf("it has %d bytes: at most %d", st.Size, maxHomeFile)
	default:
		return f, nil
	}
	return nil, errors.Join(err, f.Close())
}

// copyHomeFile copies src to rel below to, unless the file exists already. An empty file does not
// count: it is the mount point of a read-only one. The directory to belongs to the agent, and no
// link there leads out.
func copyHomeFile(src io.Reader, to, rel string, uid, gid int) error {
	root, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer root.Close()
	if fi, err := root.Lstat(rel); err == nil && (!fi.Mode().IsRegular() || fi.Size() > 0) {
		return nil
	}
	dir := ""
	for _, part := range strings.Split(filepath.Dir(rel), "/") {
		if part == "." {
			continue
		}
		dir = filepath.Join(dir, part)
		if err := root.Mkdir(dir, 0o700); err == nil {
			err = root.Lchown(dir, uid, gid)
			if err != nil {
				return err
			}
		} else if !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	// Atomically: half of a file would be kept forever.
	part := rel + ".polis-new"
	if err := root.Remove(part); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	dst, err := root.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, io.LimitReader(src, maxHomeFile))
	if err = errors.Join(err, dst.Chown(uid, gid), dst.Close()); err == nil {
		err = root.Rename(part, rel)
	}
	if err != nil {
		return errors.Join(err, root.Remove(part))
	}
	return nil
}

// mountHomeFile stores the present content of src in a directory of root's, from where it is
// mounted.
func mountHomeFile(src io.Reader, dir, name string, spec wire.Spec) (setting.Mount, error) {
	m := setting.Mount{Source: filepath.Join(dir, name), ReadOnly: true}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return m, err
	}
	dst, err := os.OpenFile(m.Source, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o400)
	if err != nil {
		return m, err
	}
	_, err = io.Copy(dst, io.LimitReader(src, maxHomeFile))
	return m, errors.Join(err, dst.Chown(spec.UID, spec.GID), dst.Close())
}
