package sandbox

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// makePoints creates the mount points in the directories an agent writes to, with the agent's
// user as owner. The agent may have left anything in them, and no process of it runs now: every step is made below
// the directory without following a link. What is in the way is kept under another name.
func (c *Config) makePoints() error {
	for _, base := range []struct {
		source, dest string
		open         *os.File
	}{{c.HomeDir, c.Home, c.HomeOpen}, {c.ScratchDir, scratchPath, c.ScratchOpen}} {
		if base.source == "" {
			continue
		}
		for _, m := range c.Mounts {
			if m.Dest == base.dest || !within(base.dest, m.Dest) {
				continue
			}
			fi, err := m.stat()
			if err != nil {
				return err
			}
			p := point{Config: c, dest: m.Dest}
			if err := p.make(base.source, base.open, strings.TrimPrefix(m.Dest, base.dest+"/"), fi.IsDir()); err != nil {
				return fmt.Errorf("mount point %s: %w", m.Dest, err)
			}
		}
	}
	return nil
}

// point is a mount point that is made.
type point struct {
	*Config
	dest string
}

func (p *point) make(base string, open *os.File, rel string, dir bool) error {
	from := unix.AT_FDCWD
	if open != nil {
		from, base = int(open.Fd()), "."
	}
	at, err := unix.Openat(from, base, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { unix.Close(at) }()
	parts := strings.Split(rel, "/")
	for i, name := range parts {
		if err := p.passable(at); err != nil {
			return err
		}
		if i == len(parts)-1 && !dir {
			return p.file(at, name)
		}
		next, err := p.directory(at, name)
		if err != nil {
			return err
		}
		unix.Close(at)
		at = next
	}
	return nil
}

// directory opens a directory, which it makes if it is not there.
func (p *point) directory(at int, name string) (int, error) {
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	next, err := unix.Openat(at, name, flags, 0)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		if err := p.moveAside(at, name); err != nil {
			return -1, err
		}
		err = unix.ENOENT
	}
	if !errors.Is(err, unix.ENOENT) {
		return next, err
	}
	if err := unix.Mkdirat(at, name, 0o700); err != nil {
		return -1, err
	}
	if next, err = unix.Openat(at, name, flags, 0); err != nil {
		return -1, err
	}
	if err := unix.Fchownat(next, "", p.UID, p.GID, unix.AT_EMPTY_PATH); err != nil {
		return -1, errors.Join(err, unix.Close(next))
	}
	return next, nil
}

// passable lets the agent's user enter a directory of its own: its programs start below.
func (p *point) passable(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if int(st.Uid) != p.UID || st.Mode&unix.S_IXUSR != 0 {
		return nil
	}
	return unix.Fchmodat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), st.Mode&0o7777|unix.S_IXUSR, 0)
}

func (p *point) file(at int, name string) error {
	var st unix.Stat_t
	err := unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG:
		return nil
	case err == nil:
		if err := p.moveAside(at, name); err != nil {
			return err
		}
	case !errors.Is(err, unix.ENOENT):
		return err
	}
	fd, err := unix.Openat(at, name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(unix.Fchown(fd, p.UID, p.GID), unix.Close(fd))
}

// asideTries bounds how many names are tried for what is in the way.
const asideTries = 16

// moveAside gives what is in the way of a mount point another name. It replaces nothing.
func (p *point) moveAside(at int, name string) error {
	for i := range asideTries {
		to := asideName(name, i)
		err := unix.Renameat2(at, name, at, to, unix.RENAME_NOREPLACE)
		if errors.Is(err, unix.EINVAL) { // the file system cannot
			var st unix.Stat_t
			if err = unix.Fstatat(at, to, &st, unix.AT_SYMLINK_NOFOLLOW); err == nil {
				err = unix.EEXIST
			} else if errors.Is(err, unix.ENOENT) {
				err = unix.Renameat(at, name, at, to)
			}
		}
		if errors.Is(err, unix.EEXIST) {
			continue
		}
		if err != nil {
			return fmt.Errorf("move %s aside: %w", name, err)
		}
		p.Log.Warn("what was in the way of a mount has another name now", "op", "sandbox.create", "path", p.dest, "name", name, "kept", to)
		return nil
	}
	return fmt.Errorf("move %s aside: %d names are in use: %w", name, asideTries, unix.EEXIST)
}

// asideName returns the name number i. It is random in the end: an agent can have taken those that it expects.
func asideName(name string, i int) string {
	suffix := ".polis-old"
	switch {
	case i > asideTries/2:
		suffix += "." + rand.Text()
	case i > 0:
		suffix += fmt.Sprintf(".%d", i)
	}
	const longest = 255 // NAME_MAX
	for len(name)+len(suffix) > longest {
		_, n := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-n]
	}
	return name + suffix
}
