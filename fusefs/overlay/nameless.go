package overlay

import (
	"context"
	"errors"
	"syscall"

	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
)

// nameless is a copy for a tree that is on another mount than the staging directory, such as an
// overlayfs: rename(2) moves nothing between mounts. The kernel removes it if it gets no name.
type nameless struct {
	fd   int // of a regular file that was opened with O_TMPFILE, -1 for none
	text string
	from unix.Statx_t // of the symbolic link with that text
}

// copyFile copies a regular file into the file system of the directory dir.
func (c *nameless) copyFile(ctx context.Context, dir, from int, st *unix.Statx_t, empty bool) (e syscall.Errno) {
	c.fd, e = backing.OpenAt(dir, ".", unix.O_TMPFILE|unix.O_WRONLY, 0o600)
	if e == syscall.EOPNOTSUPP {
		return syscall.EXDEV // overlayfs before Linux 6.10; mv(1) then copies
	}
	if e != 0 {
		return e
	}
	// The directory can have a list for what is made in it. The staging directory has none.
	err := unix.Fremovexattr(c.fd, "system.posix_acl_access")
	if err != nil && !errors.Is(err, unix.ENODATA) && !errors.Is(err, unix.EOPNOTSUPP) {
		return backing.Errno(err)
	}
	return fill(ctx, c.fd, from, st, empty)
}

// copyLink remembers a symbolic link, which no system call makes without a name.
func (c *nameless) copyLink(from int, st *unix.Statx_t) (e syscall.Errno) {
	c.text, e = readLink(from)
	c.from = *st
	return e
}

// link gives the copy its name. It never replaces what is there.
func (c *nameless) link(dir int, name string) syscall.Errno {
	if c.fd < 0 {
		// A crash in between leaves a link with the right text that belongs to root. Who may
		// follow a link does not depend on its owner.
		return makeLink(c.text, dir, name, &c.from)
	}
	if err := unix.Linkat(c.fd, "", dir, name, unix.AT_EMPTY_PATH); err != nil {
		return backing.Errno(err)
	}
	c.close()
	return 0
}

func (c *nameless) close() {
	if c.fd >= 0 {
		backing.Close(c.fd)
		c.fd = -1
	}
}
