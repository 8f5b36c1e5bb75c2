package setup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// linkName is the name of a copy until it replaces the other name of the file. No process writes in
// the tree.
const linkName = ".polis-copy"

// unlink makes a name of a file that has several a file of its own. An overlay without an index (see
// package overlayfs) separates the names at the first change, one after the other, and until then they
// are one file for the view: a change would reach some of the names. st is that of the new file then.
func (c *cleaning) unlink(ctx context.Context, d *os.File, name, path string, st *unix.Stat_t) (err error) {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	src, err := openIn(d, name, path, 0)
	if err != nil {
		return err
	}
	defer src.Close()
	at := int(d.Fd())
	fd, err := unix.Openat(at, linkName, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return &os.PathError{Op: "create", Path: path, Err: err}
	}
	dst := os.NewFile(uintptr(fd), path)
	defer func() {
		err = errors.Join(err, dst.Close())
		if err != nil {
			_ = unix.Unlinkat(at, linkName, 0) //nolint:errcheck // the result is removed
		}
	}()
	if err := c.copy(dst, src, st); err != nil {
		return fmt.Errorf("copy %s, which has %d names: %w", path, st.Nlink, err)
	}
	if os.Geteuid() == 0 {
		err = dst.Chown(c.uid, c.gid)
	}
	if err = errors.Join(err, unix.Fchmod(fd, st.Mode&0o1777)); err != nil {
		return err
	}
	if err := unix.UtimesNanoAt(at, linkName, []unix.Timespec{st.Atim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return &os.PathError{Op: "utimensat", Path: path, Err: err}
	}
	if err := unix.Renameat(at, linkName, at, name); err != nil {
		return &os.PathError{Op: "rename", Path: path, Err: err}
	}
	blocks := st.Blocks // the copy may have none yet
	if err := unix.Fstat(fd, st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	st.Blocks = max(st.Blocks, blocks)
	return nil
}

// copy copies the content: it shares the blocks if the file system can.
func (c *cleaning) copy(dst, src *os.File, st *unix.Stat_t) error {
	if unix.IoctlFileClone(int(dst.Fd()), int(src.Fd())) == nil {
		return nil
	}
	size := max(st.Size, st.Blocks*512)
	if c.room -= size; c.room < 0 {
		return errors.New("copies of the hard links that the command made would take more than disk_mb")
	}
	var free unix.Statfs_t
	if err := unix.Fstatfs(int(dst.Fd()), &free); err != nil {
		return os.NewSyscallError("fstatfs", err)
	}
	if left := int64(free.Bavail)*free.Bsize - size; left < reserve {
		return fmt.Errorf("the disk is nearly full: %d MiB are free", (left+size)>>20)
	}
	_, err := io.Copy(dst, src)
	return err
}
