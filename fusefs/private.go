package fusefs

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// staged is a private copy of a foreign object that has no place in the tree
// yet. It is made without a lock held: a file may be large.
type staged struct {
	fs   *FS
	name string // in stageDir; "" once it was put into the tree
}

// drop removes a copy that was not used.
func (s *staged) drop() {
	if s != nil && s.name != "" {
		_ = unix.Unlinkat(s.fs.stageDir, s.name, 0) // a leftover is removed at the next start
		s.name = ""
	}
}

// private makes a mutation of n one that may change it: a foreign object is
// replaced by the view's own first. empty says that its content does not matter.
// done must be called at the end.
func (fs *FS) private(n *node, m mutation, empty bool) (_ mutation, done func()) {
	if !n.foreign.Load() {
		return m, func() {}
	}
	var s *staged
	show, do := m.publish, m.do
	m.exclusive = true
	m.publish = func(ctx context.Context, c Caller, t []Target) (e syscall.Errno) {
		s.drop()
		if s, e = fs.stage(ctx, n, empty); e != 0 || show == nil {
			return e
		}
		return show(ctx, c, t)
	}
	m.do = func() syscall.Errno {
		if e := fs.settleStaged(n, s); e != 0 {
			return e
		}
		return do()
	}
	return m, func() { s.drop() }
}

// stage copies a foreign object that is not a directory.
func (fs *FS) stage(ctx context.Context, n *node, empty bool) (*staged, syscall.Errno) {
	if n.isDir() {
		return nil, 0
	}
	fs.ns.RLock()
	flags := unix.O_PATH
	if n.isRegular() {
		flags = unix.O_RDONLY | unix.O_NONBLOCK
	}
	from, st, e := -1, unix.Statx_t{}, syscall.Errno(0)
	if n.foreign.Load() { // else somebody was faster
		from, st, e = fs.open(n, flags)
	}
	fs.ns.RUnlock()
	if e != 0 || from < 0 {
		return nil, e
	}
	defer closeFD(from)
	s := &staged{fs: fs, name: "c" + strconv.FormatUint(fs.staged.Add(1), 10)}
	if n.isRegular() {
		e = fs.stageFile(ctx, s.name, from, &st, empty)
	} else {
		e = fs.stageLink(s.name, from, &st)
	}
	if e != 0 {
		s.drop()
		return nil, e
	}
	return s, 0
}

func (fs *FS) stageFile(ctx context.Context, name string, from int, st *unix.Statx_t, empty bool) syscall.Errno {
	fd, e := openAt(fs.stageDir, name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o600)
	if e != 0 {
		return e
	}
	defer closeFD(fd)
	if !empty {
		if e := copyContent(ctx, fd, from); e != 0 {
			return e
		}
	}
	if e := copyXattrs(fd, from); e != 0 {
		return e
	}
	if e := fs.own(fd, int(st.Uid), int(st.Gid), uint32(st.Mode)&0o7777); e != 0 {
		return e
	}
	return errnoOf(unix.UtimesNanoAt(fd, "", times(st), unix.AT_EMPTY_PATH))
}

func (fs *FS) stageLink(name string, from int, st *unix.Statx_t) syscall.Errno {
	buf := make([]byte, unix.PathMax)
	c, err := unix.Readlinkat(from, "", buf)
	if err != nil {
		return errnoOf(err)
	}
	if err := unix.Symlinkat(string(buf[:c]), fs.stageDir, name); err != nil {
		return errnoOf(err)
	}
	if err := unix.Fchownat(fs.stageDir, name, int(st.Uid), int(st.Gid), unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return errnoOf(err)
	}
	return errnoOf(unix.UtimesNanoAt(fs.stageDir, name, times(st), unix.AT_SYMLINK_NOFOLLOW))
}

func times(st *unix.Statx_t) []unix.Timespec {
	return []unix.Timespec{{Sec: st.Atime.Sec, Nsec: int64(st.Atime.Nsec)}, {Sec: st.Mtime.Sec, Nsec: int64(st.Mtime.Nsec)}}
}

// copyContent copies a whole file, sharing its blocks where the file system can.
func copyContent(ctx context.Context, to, from int) syscall.Errno {
	if unix.IoctlFileClone(to, from) == nil {
		return 0
	}
	buf := make([]byte, 256<<10)
	for off := int64(0); ; {
		if ctx.Err() != nil {
			return syscall.EINTR
		}
		n, err := unix.Pread(from, buf, off)
		if err != nil || n == 0 {
			return errnoOf(err)
		}
		for b := buf[:n]; len(b) > 0; {
			w, err := unix.Pwrite(to, b, off)
			if err != nil {
				return errnoOf(err)
			}
			off, b = off+int64(w), b[w:]
		}
	}
}

// copyXattrs copies what a view shows of them.
func copyXattrs(to, from int) syscall.Errno {
	buf := make([]byte, unix.PathMax*16) // XATTR_LIST_MAX
	n, err := unix.Flistxattr(from, buf)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return 0
	}
	if err != nil {
		return errnoOf(err)
	}
	val := make([]byte, 64<<10) // XATTR_SIZE_MAX
	for name := range strings.SplitSeq(string(buf[:n]), "\x00") {
		if !strings.HasPrefix(name, userPrefix) {
			continue
		}
		c, err := unix.Fgetxattr(from, name, val)
		if err == nil {
			err = unix.Fsetxattr(to, name, val[:c], 0)
		}
		if err != nil {
			return errnoOf(err)
		}
	}
	return 0
}

// settleStaged puts the copy in the object's place in the tree. ns is held for
// writing.
func (fs *FS) settleStaged(n *node, s *staged) syscall.Errno {
	if !n.foreign.Load() {
		return 0
	}
	refs := fs.tree.refs(n)
	if len(refs) != 1 {
		return syscall.EROFS // it has no name any more: there is no place for a copy
	}
	parent, name := refs[0].parent, refs[0].name
	low := n.root() == fs.lower
	root := n.root()
	if low {
		root = 0
	}
	if n.isDir() {
		return fs.raise(n)
	}
	if s == nil {
		return syscall.ESTALE
	}
	st, e := fs.stat(n)
	if e != 0 {
		return e
	}
	var d *dirFD
	if low {
		d, e = fs.mirror(parent, root)
	} else {
		d, e = fs.dir(parent, root)
	}
	if e != 0 {
		return e
	}
	defer fs.dirs.put(d)
	flags := uint(0)
	if low {
		flags = unix.RENAME_NOREPLACE
	} else if now, e := statAt(d.fd, name); e != 0 || !n.is(&now) {
		return syscall.ESTALE
	}
	if err := unix.Renameat2(fs.stageDir, s.name, d.fd, name, flags); err != nil {
		return errnoOf(err)
	}
	s.name = ""
	if st, e = statAt(d.fd, name); e != 0 {
		return e
	}
	fs.rekey(n, keyOf(root, &st))
	return fs.reopen(n, d.fd, name, &st)
}

// raise makes a directory of the lower root one of the tree.
func (fs *FS) raise(n *node) syscall.Errno {
	if n.root() != fs.lower || !n.isDir() {
		return 0
	}
	d, e := fs.mirror(n, 0)
	if e == 0 {
		fs.dirs.put(d)
	}
	return e
}

// rekey makes a node stand for another object. The kernel notices nothing but
// another inode number. ns is held for writing.
func (fs *FS) rekey(n *node, k key) {
	fs.tree.rekey(n, k)
	fs.dirs.drop(n, len(fs.roots))
}

// rekey replaces a node's object; k.own says that the new one is foreign too.
func (t *tree) rekey(n *node, k key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byK[n.key] == n {
		delete(t.byK, n.key)
	}
	if k.own != 0 {
		k.own = n.id
	}
	n.key = k
	n.foreign.Store(k.own != 0)
	t.byK[k] = n
}

// reopen lets the open files of a node, all of them read-only, go on with the
// object that has taken its place: it has the same content. dup3 changes what a
// descriptor stands for in one step, under a READ that may be using it.
func (fs *FS) reopen(n *node, dir int, name string, st *unix.Statx_t) syscall.Errno {
	n.io.mu.Lock()
	defer n.io.mu.Unlock()
	now := stampOf(st)
	n.io.seen = &now
	if n.io.data > 0 {
		if e := replaceFD(int(n.io.data), dir, name); e != 0 {
			return e
		}
	}
	for h := n.io.open; h != nil; h = h.next {
		if h.fd < 0 || h.writable {
			continue
		}
		if e := replaceFD(h.fd, dir, name); e != 0 {
			return e
		}
	}
	return 0
}

func replaceFD(old, dir int, name string) syscall.Errno {
	fd, e := openAt(dir, name, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if e != 0 {
		return e
	}
	defer closeFD(fd)
	return errnoOf(unix.Dup3(fd, old, unix.O_CLOEXEC))
}

// errnoLogged is errnoOf for a fault that a person should know of.
func (fs *FS) errnoLogged(op string, err error) syscall.Errno {
	if err == nil {
		return 0
	}
	fs.log.Error("a shared name cannot be made private", slog.String("op", op), slog.Any("err", err))
	return errnoOf(err)
}

// unchanged says that a SETATTR asks for what is so already: installers set
// the permissions of every program, and that must not cost a copy.
func (fs *FS) unchanged(n *node, in *fuse.SetAttrIn) bool {
	const harmless = fuse.FATTR_MODE | fuse.FATTR_UID | fuse.FATTR_GID | fuse.FATTR_FH | fuse.FATTR_LOCKOWNER | fuse.FATTR_CTIME | fuse.FATTR_KILL_SUIDGID
	if in.Valid&^uint32(harmless) != 0 {
		return false
	}
	fs.ns.RLock()
	st, e := fs.stat(n)
	fs.ns.RUnlock()
	if e != 0 || in.Valid&fuse.FATTR_KILL_SUIDGID != 0 && st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 {
		return false
	}
	if mode, ok := in.GetMode(); ok && mode&0o7777 != uint32(st.Mode)&0o7777 {
		return false
	}
	uid, byUID := in.GetUID()
	gid, byGID := in.GetGID()
	return (!byUID || uid == st.Uid) && (!byGID || gid == st.Gid)
}
