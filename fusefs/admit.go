package fusefs

import (
	"context"
	"log/slog"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
	"polis/fusefs/inode"
)

// admitWait is how long a link waits for the release of a file that was closed
// just now: the kernel reports it after close has returned.
const admitWait = 200 * time.Millisecond

// foreignAt says whether what is at parent/name is an object that must not be
// changed. The name lock is held.
func (fs *FS) foreignAt(parent *inode.Node, name string, root int, st *unix.Statx_t) bool {
	s := fs.cfg.Shared
	switch {
	case s == nil || parent == nil:
		return false
	case root == fs.lower:
		return true
	case s.Store == nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink < 2 || root != 0 && root != s.StoreRoot:
		return false
	}
	if n := fs.tree.At(parent, name); n != nil && inode.KeyOf(root, st).Same(n.Key) {
		return n.CopyUp.Load()
	}
	d, e := fs.dir(parent, root)
	if e != 0 {
		return true
	}
	defer fs.dirs.put(d)
	fd, e := backing.OpenAt(d.fd, name, unix.O_PATH, 0)
	if e != 0 {
		return true
	}
	defer backing.Close(fd)
	return s.Store.Marked(fd)
}

// sharing makes a link of a file in the store root one of a shared inode, if the
// file is what its name says. done must be called at the end.
func (fs *FS) sharing(n *inode.Node, m mutation) (_ mutation, done func()) {
	s := fs.cfg.Shared
	if s == nil || s.Store == nil || !n.IsRegular() || n.CopyUp.Load() {
		return m, func() {}
	}
	path := fs.tree.Path(n)
	if fs.routePath(path) != s.StoreRoot || !s.Store.Shareable(path) {
		return m, func() {}
	}
	fd := -1
	drop := func() {
		if fd >= 0 {
			backing.Close(fd)
			fd = -1
		}
	}
	show, do := m.publish, m.do
	m.exclusive = true
	m.publish = func(ctx context.Context, c Caller, t []Target) syscall.Errno {
		drop()
		if e := show(ctx, c, t); e != 0 {
			return e
		}
		fd = fs.admit(ctx, n, path)
		return 0
	}
	m.do = func() syscall.Errno {
		if fd >= 0 && !n.CopyUp.Load() {
			if e := fs.swapShared(n, fd); e != 0 {
				return e
			}
		}
		return do()
	}
	return m, drop
}

// admit asks the store for the inode, -1 if it has none: the file is then as any
// other, and its link across the roots is refused.
func (fs *FS) admit(ctx context.Context, n *inode.Node, path string) int {
	end, tick := time.NewTimer(admitWait), time.NewTicker(time.Millisecond)
	defer end.Stop()
	defer tick.Stop()
	for n.Files.Writing() {
		select {
		case <-tick.C:
		case <-end.C:
			return -1
		case <-ctx.Done():
			return -1
		}
	}
	content, e := fs.contentOf(n)
	if e != 0 {
		return -1
	}
	defer backing.Close(content)
	fd, err := fs.cfg.Shared.Store.Admit(ctx, path, content)
	if err != nil {
		fs.log.Warn("content of the package store is not shared", slog.String("op", "admit"), slog.String("path", path), slog.Any("err", err))
		return -1
	}
	return fd
}

// swapShared puts the shared inode fd in the place of the file it is a copy of.
// Files that are open for writing, or whose data the kernel handles, stay as
// they are. The name lock is held for writing.
func (fs *FS) swapShared(n *inode.Node, fd int) syscall.Errno {
	refs := fs.tree.Refs(n)
	if len(refs) != 1 || n.Files.Writing() || n.Files.Passthrough() {
		return 0
	}
	d, e := fs.dir(refs[0].Parent, n.Root())
	if e != 0 {
		return e
	}
	defer fs.dirs.put(d)
	if now, e := backing.StatAt(d.fd, refs[0].Name); e != 0 || !n.Is(&now) || now.Nlink != 1 {
		return 0
	}
	tmp := &staged{fs: fs, name: "s" + strconv.FormatUint(fs.staged.Add(1), 10)}
	defer tmp.drop()
	if unix.Linkat(fd, "", fs.stageDir, tmp.name, unix.AT_EMPTY_PATH) != nil {
		return 0 // swept, or too many links: not shared then
	}
	if err := unix.Renameat(fs.stageDir, tmp.name, d.fd, refs[0].Name); err != nil {
		return backing.Errno(err)
	}
	tmp.name = ""
	st, e := backing.StatAt(d.fd, refs[0].Name)
	if e != 0 {
		return e
	}
	fs.passthrough.Unregister(&n.Files)
	k := inode.KeyOf(n.Root(), &st)
	k.Own = 1
	fs.rekey(n, k)
	return n.Files.Reopen(d.fd, refs[0].Name, &st)
}

// linkable says whether n may get a name in root: in its own, or, as a shared
// inode, in the tree.
func (fs *FS) linkable(n *inode.Node, root int) bool {
	if n.Root() == root {
		return root != fs.lower
	}
	s := fs.cfg.Shared
	return s != nil && s.Store != nil && n.CopyUp.Load() && n.Root() == s.StoreRoot && root == 0
}
