package relisten

import (
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"polis/daemon/host/acl"
)

// What Check found at the path of a socket.
const (
	Removed    = "was removed"
	Replaced   = "was replaced by another file"
	DirGone    = "was lost with its directory"
	Unlistened = "had no listener"
)

// Check makes the socket again if its path does not lead to one of the sockets. It returns what it found, "" if all is
// well; with an error, the path leads to none of them still.
func (f *Listener) Check() (found string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return "", nil
	}
	moved, err := f.dir.follow()
	if err != nil {
		return DirGone, fmt.Errorf("make the directory of the socket %s again: %w", f.path, err)
	}
	st, err := f.dir.stat(f.base)
	switch {
	case err == nil && f.holds(st):
		f.access = accessOf(f.dir.fd, f.base, st) // an administrator may have changed it
		return "", nil
	case moved:
		found = DirGone
	case errors.Is(err, unix.ENOENT):
		found = Removed
	case err != nil:
		return Removed, fmt.Errorf("examine the socket %s: %w", f.path, err)
	case f.sockets[0].ino == 0 && len(f.sockets) == 1 && st.Mode&unix.S_IFMT == unix.S_IFSOCK:
		found = Unlistened
	default:
		found = Replaced
	}
	s, err := f.remake()
	if err != nil {
		return found, fmt.Errorf("make the socket %s again: %w", f.path, err)
	}
	f.sockets = append(f.sockets, s)
	if f.serving {
		f.group.Go(func() { f.accept(s) })
	}
	if len(f.sockets) > maxSockets {
		_ = f.sockets[1].l.Close() //nolint:errcheck // a socket without a name
		f.sockets = append(f.sockets[:1:1], f.sockets[2:]...)
	}
	return found, nil
}

// holds reports whether a file is the name of one of the sockets.
func (f *Listener) holds(st *unix.Stat_t) bool {
	for _, s := range f.sockets {
		if s.ino == st.Ino && s.dev == st.Dev { // while it listens, its name's inode is no other file's
			return true
		}
	}
	return false
}

// remake makes a socket under another name and renames it: what has the name meanwhile is replaced, never followed.
func (f *Listener) remake() (_ *socket, err error) {
	tmp := f.base + ".new"
	if err := unix.Unlinkat(f.dir.fd, tmp, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return nil, fmt.Errorf("remove %s: %w", tmp, err)
	}
	l, err := Private(at(f.dir.fd, tmp))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
			_ = unix.Unlinkat(f.dir.fd, tmp, 0) //nolint:errcheck // the next one removes it too
		}
	}()
	fd, err := unix.Openat(f.dir.fd, tmp, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", tmp, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("stat %s: %w", tmp, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return nil, fmt.Errorf("%s was replaced", tmp)
	}
	if err := f.access.set(fd, &st); err != nil {
		return nil, err
	}
	if err := unix.Renameat(f.dir.fd, tmp, f.dir.fd, f.base); err != nil {
		return nil, fmt.Errorf("rename %s: %w", tmp, err)
	}
	return &socket{l: l, dev: st.Dev, ino: st.Ino}, nil
}

// accessOf reads who may connect to a socket. What cannot be read is not granted again.
func accessOf(dir int, name string, st *unix.Stat_t) access {
	a := access{uid: int(st.Uid), gid: int(st.Gid), mode: st.Mode & 0o777}
	buf := make([]byte, unix.PathMax)
	if n, err := unix.Lgetxattr(at(dir, name), acl.Attribute, buf); err == nil {
		a.list = buf[:n]
	} else if !errors.Is(err, unix.ENODATA) && !errors.Is(err, unix.EOPNOTSUPP) {
		a.mode &^= 0o077
	}
	return a
}

// set gives the access to an open file (O_PATH) that only its owner can use yet.
func (a access) set(fd int, st *unix.Stat_t) error {
	if int(st.Uid) != a.uid || int(st.Gid) != a.gid {
		if err := unix.Fchownat(fd, "", a.uid, a.gid, unix.AT_EMPTY_PATH); err != nil {
			return fmt.Errorf("chown: %w", err)
		}
	}
	if err := unix.Chmod(byFD(fd), a.mode); err != nil {
		return fmt.Errorf("chmod: %w", err)
	}
	if a.list == nil {
		return nil
	}
	if err := unix.Setxattr(byFD(fd), acl.Attribute, a.list, 0); err != nil {
		return fmt.Errorf("set its access control list: %w", err)
	}
	return nil
}

// listens reports whether a process listens on the socket.
func listens(dir int, name string) bool {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return true // unknown: leave it
	}
	defer unix.Close(fd)
	return !errors.Is(unix.Connect(fd, &unix.SockaddrUnix{Name: at(dir, name)}), unix.ECONNREFUSED)
}

func byFD(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

func at(dir int, name string) string { return byFD(dir) + "/" + name }
