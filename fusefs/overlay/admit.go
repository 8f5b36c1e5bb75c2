package overlay

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

// KeyAt is the key of what is at parent/name. The name lock is held.
func (l *Layers) KeyAt(parent *inode.Node, name string, root int, st *unix.Statx_t) inode.Key {
	k := l.Undated.KeyOf(root, st)
	if l.foreignAt(parent, name, root, st) {
		k.Own = true
	}
	if root == l.lower {
		parent.SetMerged()
	}
	return k
}

// foreignAt reports whether what is at parent/name is an object that must not be
// changed. The name lock is held.
func (l *Layers) foreignAt(parent *inode.Node, name string, root int, st *unix.Statx_t) bool {
	s := l.Shared
	switch {
	case s == nil || parent == nil:
		return false
	case root == l.lower:
		return true
	case s.Store == nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink < 2 || root != 0 && root != s.StoreRoot:
		return false
	}
	if n := l.Tree.At(parent, name); n != nil && l.Undated.KeyOf(root, st).Same(n.Key) {
		return n.CopyUp()
	}
	d, e := l.Dir(parent, root)
	if e != 0 {
		return true
	}
	defer l.dirs.put(d)
	fd, e := backing.OpenAt(d.FD, name, unix.O_PATH, 0)
	if e != 0 {
		return true
	}
	defer backing.Close(fd)
	return s.Store.Marked(fd)
}

// Sharing puts a shared inode of the store in the place of a file with its content.
type Sharing struct {
	l    *Layers
	n    *inode.Node
	path string
	fd   int // of the shared inode, -1 for none
}

// Share begins; ok is false if the file is not one whose content may be shared. Drop
// must be called at the end.
func (l *Layers) Share(n *inode.Node) (s *Sharing, ok bool) {
	if l.Shared == nil || l.Shared.Store == nil || !n.IsRegular() || n.CopyUp() {
		return nil, false
	}
	if l.apart { // link(2) makes no name on another mount: a shared inode would be of no use
		return nil, false
	}
	path := l.Tree.Path(n)
	if l.Route(path) != l.Shared.StoreRoot || !l.Shared.Store.Shareable(path) {
		return nil, false
	}
	return &Sharing{l: l, n: n, path: path, fd: -1}, true
}

// Prepare gets the inode from the store. No lock is held.
func (s *Sharing) Prepare(ctx context.Context) {
	s.Drop()
	s.fd = s.l.admit(ctx, s.n, s.path)
}

// Commit puts it in the file's place, if there is one. The name lock is held for writing.
func (s *Sharing) Commit() syscall.Errno {
	if s.fd < 0 || s.n.CopyUp() {
		return 0
	}
	return s.l.swapShared(s.n, s.fd)
}

// Drop closes the descriptor of the inode.
func (s *Sharing) Drop() {
	if s.fd >= 0 {
		backing.Close(s.fd)
		s.fd = -1
	}
}

// admit asks the store for the inode, -1 if it has none: the file is then as any
// other, and its link across the roots is refused.
func (l *Layers) admit(ctx context.Context, n *inode.Node, path string) int {
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
	content, e := l.OpenContent(n)
	if e != 0 {
		return -1
	}
	defer backing.Close(content)
	fd, err := l.Shared.Store.Admit(ctx, path, content)
	if err != nil {
		l.Log.Warn("content of the package store is not shared", slog.String("op", "admit"), slog.String("path", path), slog.Any("err", err))
		return -1
	}
	return fd
}

// swapShared puts the shared inode fd in the place of the file it is a copy of.
// Files that are open for writing, or whose data the kernel handles, stay as
// they are. The name lock is held for writing.
func (l *Layers) swapShared(n *inode.Node, fd int) syscall.Errno {
	refs := l.Tree.Refs(n)
	if len(refs) != 1 || n.Files.Writing() || n.Files.Passthrough() {
		return 0
	}
	d, e := l.Dir(refs[0].Parent, n.Root())
	if e != 0 {
		return e
	}
	defer l.dirs.put(d)
	if now, e := backing.StatAt(d.FD, refs[0].Name); e != 0 || !n.Is(&now) || now.Nlink != 1 {
		return 0
	}
	tmp := &staged{l: l, name: "s" + strconv.FormatUint(l.staged.Add(1), 10), nameless: nameless{fd: -1}}
	defer tmp.drop()
	if unix.Linkat(fd, "", l.stageDir, tmp.name, unix.AT_EMPTY_PATH) != nil {
		return 0 // swept, or too many links: not shared then
	}
	if err := unix.Renameat(l.stageDir, tmp.name, d.FD, refs[0].Name); err != nil {
		return backing.Errno(err)
	}
	tmp.name = ""
	st, e := backing.StatAt(d.FD, refs[0].Name)
	if e != 0 {
		return e
	}
	l.Passthrough.Unregister(&n.Files)
	k := l.Undated.KeyOf(n.Root(), &st)
	k.Own = true
	l.rekey(n, k)
	return n.Files.Reopen(opensAt(d.FD, refs[0].Name), &st)
}

// Linkable reports whether n may get a name in root: in its own, or, as a shared
// inode, in the tree.
func (l *Layers) Linkable(n *inode.Node, root int) bool {
	if n.Root() == root {
		return root != l.lower
	}
	s := l.Shared
	return s != nil && s.Store != nil && n.CopyUp() && n.Root() == s.StoreRoot && root == 0
}
