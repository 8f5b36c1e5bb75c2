package home

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"polis/daemon/api/setting"
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

// readOwners reads the regular file rel of user owner below home.
func readOwners(home, rel string, owner int) ([]byte, error) {
	f, err := openFile(home, rel, owner)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	return b, errors.Join(err, f.Close())
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

// HasAny reports whether a user has one of the files below the home directory, and owns it.
func HasAny(owner int, paths []string) bool {
	home := ownersHome(owner)
	if home == "" {
		return false
	}
	for _, p := range paths {
		if f, err := openFile(home, p, owner); err == nil {
			_ = f.Close() //nolint:errcheck // nothing was written
			return true
		}
	}
	return false
}
