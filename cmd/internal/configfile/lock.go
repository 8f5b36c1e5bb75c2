package configfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// lockTime bounds how long another program that changes the configuration is waited for.
	lockTime = 10 * time.Second
	lockPoll = 20 * time.Millisecond
)

// lock makes the lock file beside the configuration, mode 0600, and locks it by flock(2): who cannot open it cannot hold the
// lock, as any user could that of the directory, or of the configuration. unlock removes it. One that a crash left is used
// again.
func (o *opened) lock(ctx context.Context) (unlock func() error, err error) {
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		file, err := o.tryLock()
		if err != nil {
			return nil, err
		}
		if file != nil {
			return func() error { return errors.Join(o.remove(o.lockName()), file.Close()) }, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, ErrBusy
		}
	}
}

func (o *opened) lockName() string { return "." + o.base + ".lock" }

// tryLock returns the locked file; nil if another program has the lock, or has just removed the file.
func (o *opened) tryLock() (*os.File, error) {
	name, dir := o.lockName(), int(o.dir.Fd())
	path := filepath.Join(filepath.Dir(o.path), name)
	fd, err := unix.Openat(dir, name, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, &os.PathError{Op: "lock", Path: path, Err: err}
	}
	file := os.NewFile(uintptr(fd), path)
	held, err := locked(dir, fd, name)
	if err == nil && held {
		return file, nil
	}
	if err != nil {
		err = fmt.Errorf("lock %s: %w", path, err)
	}
	return nil, errors.Join(err, file.Close())
}

// locked takes the lock of an open file, and reports whether that is still the file of this name.
func locked(dir, fd int, name string) (bool, error) {
	var st, now unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return false, fmt.Errorf("not a regular file: %w", fs.ErrInvalid)
	}
	err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	err = unix.Fstatat(dir, name, &now, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	return err == nil && now.Ino == st.Ino && now.Dev == st.Dev, err
}
