package fusefs

import (
	"strconv"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Every name is one component, so BENEATH and NO_SYMLINKS say the same thing
// twice: nothing but an entry of the directory the descriptor stands for.
const resolveFlags = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

func openAt(dir int, name string, flags int, mode uint32) (int, syscall.Errno) {
	how := unix.OpenHow{
		Flags:   uint64(flags | unix.O_NOFOLLOW | unix.O_CLOEXEC),
		Mode:    uint64(mode),
		Resolve: resolveFlags,
	}
	for {
		fd, err := unix.Openat2(dir, name, &how)
		switch err {
		case nil:
			return fd, 0
		case unix.EAGAIN, unix.EINTR: // a rename raced with the walk: openat2(2)
			if flags&unix.O_NONBLOCK != 0 && err == unix.EAGAIN {
				return -1, syscall.EAGAIN
			}
			continue
		}
		return -1, errnoOf(err)
	}
}

const statMask = unix.STATX_BASIC_STATS | unix.STATX_BTIME

// statAt stats a name in a directory, or with an empty name the descriptor.
func statAt(dir int, name string) (unix.Statx_t, syscall.Errno) {
	var st unix.Statx_t
	flags := unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	err := unix.Statx(dir, name, flags, statMask, &st)
	return st, errnoOf(err)
}

// procFD is the one place a path is made, for the few calls that have no
// descriptor form. It names a descriptor, not a file.
func procFD(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// route is the backing root a name of parent lives in. Called with ns held.
func (fs *FS) route(parent *node, name string) int {
	switch up := parent.root(); {
	case len(fs.roots) == 1:
		return 0
	case up != 0 && up != fs.lower:
		return up // below an overlay everything is in the overlay
	}
	if root, ok := fs.tree.routed(parent, name, fs.era()); ok && root != fs.lower {
		return root
	}
	path := fs.tree.child(parent, name)
	root := fs.routePath(path)
	if root == 0 {
		root = fs.settle(parent, name, path)
	}
	return root
}

func (fs *FS) routePath(path string) int {
	if i := fs.guard.Route(path); i >= 0 && i < len(fs.roots) {
		return i
	}
	return 0
}

// routed is the root of a known name whose path is what it was when the root
// was found out: the verdict that was given then is of this era.
func (t *tree) routed(parent *node, name string, era uint64) (root int, ok bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	n := parent.children[name]
	if n == nil || era == 0 || !n.only(parent, name) || n.verdict.Load()>>eraShift != era>>eraShift {
		return 0, false
	}
	return n.root(), true
}

// dir returns the directory n as it is in a root; give it back with dirs.put.
// The way from the root is walked one component at a time, so no path is too
// long. Called with ns held.
func (fs *FS) dir(n *node, root int) (*dirFD, syscall.Errno) {
	if n == fs.tree.root {
		return &fs.top[root], 0
	}
	if root == fs.lower {
		return fs.lowerDir(n)
	}
	k := dirKey{n, root}
	if d := fs.dirs.get(k); d != nil {
		return d, 0
	}
	r, ok := fs.tree.sole(n)
	if !ok {
		return nil, syscall.ENOENT
	}
	up, e := fs.dir(r.parent, root)
	if e != 0 {
		return nil, e
	}
	defer fs.dirs.put(up)
	fd, e := openAt(up.fd, r.name, unix.O_PATH|unix.O_DIRECTORY, 0)
	if e != 0 {
		if root != n.root() {
			return nil, e
		}
		return nil, swapped(e)
	}
	if root == n.root() {
		st, e := statAt(fd, "")
		if e == 0 && !n.is(&st) {
			e = syscall.ESTALE
		}
		if e != 0 {
			closeFD(fd)
			return nil, e
		}
	}
	return fs.dirs.add(k, fd), 0
}

// place is a name resolved to a directory descriptor and a root.
type place struct {
	dir  *dirFD
	root int
	path string // only where something shows from below
}

// at resolves the directory a name of parent lives in. Called with ns held.
func (fs *FS) at(parent *node, name string) (place, syscall.Errno) {
	p := place{root: fs.route(parent, name)}
	if fs.lower >= 0 {
		p.path = fs.tree.child(parent, name)
	}
	var e syscall.Errno
	p.dir, e = fs.dir(parent, p.root)
	return p, e
}

// atNew is at for a name about to be created: in an overlay root the
// directories above it may not exist yet, and are made like those they mirror.
func (fs *FS) atNew(parent *node, name string) (place, syscall.Errno) {
	p, e := fs.at(parent, name)
	if p.root == fs.lower {
		if e == 0 {
			fs.dirs.put(p.dir)
			e = syscall.EEXIST
		}
		return p, e
	}
	if e == syscall.ENOENT && p.root != parent.root() {
		if p.dir, e = fs.mirror(parent, p.root); e == 0 {
			return p, 0
		}
	}
	return p, e
}

func (fs *FS) mirror(n *node, root int) (*dirFD, syscall.Errno) {
	if d, e := fs.dir(n, root); e != syscall.ENOENT {
		return d, e
	}
	r, ok := fs.tree.sole(n)
	if !ok {
		return nil, syscall.ENOENT
	}
	st, e := fs.stat(n)
	if e != 0 {
		return nil, e
	}
	up, e := fs.mirror(r.parent, root)
	if e != 0 {
		return nil, e
	}
	defer fs.dirs.put(up)
	if e := errnoOf(unix.Mkdirat(up.fd, r.name, 0o700)); e != 0 && e != syscall.EEXIST {
		return nil, e
	}
	d, e := fs.dir(n, root)
	if e != 0 {
		return nil, e
	}
	if e := fs.own(d.fd, int(st.Uid), int(st.Gid), uint32(st.Mode)&0o7777); e != 0 {
		fs.dirs.put(d)
		return nil, e
	}
	if n.root() == fs.lower {
		// From here on the directory is the tree's; what shows in it stays.
		up, e := statAt(d.fd, "")
		if e != 0 {
			fs.dirs.put(d)
			return nil, e
		}
		fs.rekey(n, keyOf(root, &up))
		n.merged.Store(true)
	}
	return d, 0
}

// open opens the object by one of its names, or by a descriptor of an open
// file once it has none, and checks that it is the one that was meant. Called
// with ns held.
func (fs *FS) open(n *node, flags int) (int, unix.Statx_t, syscall.Errno) {
	if n == fs.tree.root {
		fd, e := openAt(fs.roots[0], ".", flags, 0)
		st, e2 := statAt(fs.roots[0], "")
		if e == 0 && e2 != 0 {
			closeFD(fd)
			e = e2
		}
		return fd, st, e
	}
	fd, st, last := fs.openNamed(n, flags)
	if last == 0 {
		return fd, st, 0
	}
	if fd, ok := n.io.dup(); ok {
		st, e := statAt(fd, "")
		if e != 0 || flags&unix.O_PATH != 0 {
			return fd, st, e
		}
		defer closeFD(fd)
		again, err := unix.Open(procFD(fd), flags&^unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		return again, st, errnoOf(err)
	}
	return -1, unix.Statx_t{}, last
}

// openNamed is open by name only. io.mu may be held.
func (fs *FS) openNamed(n *node, flags int) (int, unix.Statx_t, syscall.Errno) {
	last := syscall.ESTALE
	for i := 0; ; i++ {
		r, ok := fs.tree.nth(n, i)
		if !ok {
			return -1, unix.Statx_t{}, last
		}
		p, e := fs.at(r.parent, r.name)
		if e != 0 {
			last = e
			continue
		}
		fd, e := openAt(p.dir.fd, r.name, flags, 0)
		fs.dirs.put(p.dir)
		if e != 0 {
			last = swapped(e)
			continue
		}
		st, e := statAt(fd, "")
		if e == 0 && n.is(&st) {
			return fd, st, 0
		}
		closeFD(fd)
		last = syscall.ESTALE
	}
}

// stat reads the attributes by name, or by an open file, or from memory when
// the last link is gone. Called with ns held.
func (fs *FS) stat(n *node) (unix.Statx_t, syscall.Errno) {
	if n == fs.tree.root {
		return statAt(fs.roots[0], "")
	}
	last := syscall.ESTALE
	for i := 0; ; i++ {
		r, ok := fs.tree.nth(n, i)
		if !ok {
			break
		}
		p, e := fs.at(r.parent, r.name)
		if e != 0 {
			last = swapped(e)
			continue
		}
		st, e := statAt(p.dir.fd, r.name)
		fs.dirs.put(p.dir)
		if e == 0 && n.is(&st) {
			return st, 0
		}
		last = syscall.ESTALE
	}
	if fd, ok := n.io.dup(); ok {
		defer closeFD(fd)
		return statAt(fd, "")
	}
	return unix.Statx_t{}, last
}

// attr translates attributes. Inode numbers of another device are mixed so
// that two files of one view never share a number.
func (fs *FS) attr(st *unix.Statx_t, out *fuse.Attr) {
	ino := st.Ino
	if dev := devOf(st); dev != fs.rootDev {
		ino ^= uint64(dev) << 32
	}
	*out = fuse.Attr{
		Ino: ino, Size: st.Size, Blocks: st.Blocks,
		Atime: uint64(st.Atime.Sec), Atimensec: st.Atime.Nsec,
		Mtime: uint64(st.Mtime.Sec), Mtimensec: st.Mtime.Nsec,
		Ctime: uint64(st.Ctime.Sec), Ctimensec: st.Ctime.Nsec,
		Mode: uint32(st.Mode), Nlink: st.Nlink,
		Owner: fuse.Owner{Uid: st.Uid, Gid: st.Gid},
		Rdev:  uint32(unix.Mkdev(st.Rdev_major, st.Rdev_minor)), Blksize: st.Blksize,
	}
	if fs.acls && out.Mode&unix.S_IFMT != unix.S_IFLNK {
		out.Mode &^= unix.S_IRWXG
	}
}
