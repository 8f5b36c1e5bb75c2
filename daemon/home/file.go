package home

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"polis/daemon/setting"
)

// maxFile is the largest file that is brought into an agent's home, in bytes.
const maxFile = 4 << 20

// openFile opens the regular file rel of user owner below home. It follows links that do not leave
// home. It refuses a file of another user: the project's owner cannot share that.
func openFile(home, rel string, owner int) (*os.File, error) {
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
	case st.Size > maxFile:
		err = fmt.Errorf("it has %d bytes: at most %d", st.Size, maxFile)
	default:
		return f, nil
	}
	return nil, errors.Join(err, f.Close())
}

// copyFile copies src to rel in the agent's home, unless the file exists. An empty file counts as
// missing: it is the mount point of a read-only file. os.Root refuses links that lead out.
func (s Spec) copyFile(src io.Reader, rel string) error {
	root, err := os.OpenRoot(s.Dir)
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
			err = root.Lchown(dir, s.UID, s.GID)
			if err != nil {
				return err
			}
		} else if !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	// The copy is renamed into place: a later start keeps what exists, even half of a file.
	part := rel + ".polis-new"
	if err := root.Remove(part); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	dst, err := root.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, io.LimitReader(src, maxFile))
	if err = errors.Join(err, dst.Chown(s.UID, s.GID), dst.Close()); err == nil {
		err = root.Rename(part, rel)
	}
	if err != nil {
		return errors.Join(err, root.Remove(part))
	}
	return nil
}

// storeFile copies src to the file name of the directory of read-only files, and returns the mount
// of the copy, without its destination.
func (s Spec) storeFile(src io.Reader, name string) (setting.Mount, error) {
	m := setting.Mount{Source: filepath.Join(s.ReadOnly, name), ReadOnly: true}
	if err := os.MkdirAll(s.ReadOnly, 0o700); err != nil {
		return m, err
	}
	dst, err := os.OpenFile(m.Source, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o400)
	if err != nil {
		return m, err
	}
	_, err = io.Copy(dst, io.LimitReader(src, maxFile))
	return m, errors.Join(err, dst.Chown(s.UID, s.GID), dst.Close())
}
