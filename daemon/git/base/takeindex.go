package base

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// takeIndex copies the index that git wrote to its place, which git's user cannot reach. That user
// can exchange the file in the scratch directory: no link is followed, and no other user's file is
// taken.
func (s *Store) takeIndex(from, to string) (err error) {
	src, err := os.OpenFile(from, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer src.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(src.Fd()), &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink != 1 || os.Geteuid() == 0 && st.Uid != s.cfg.UID {
		return fmt.Errorf("%s is not the index that git wrote (mode %o, uid %d, %d names)", from, st.Mode, st.Uid, st.Nlink)
	}
	tmp := to + partial
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dst, err := os.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err = unix.IoctlFileClone(int(dst.Fd()), int(src.Fd())); err != nil {
		_, err = io.Copy(dst, src)
	}
	if err = errors.Join(err, dst.Close()); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return os.Rename(tmp, to)
}
