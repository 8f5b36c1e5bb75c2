package overlay

import (
	"context"
	"log/slog"
	"syscall"

	"polis/fusefs/backing"
	"polis/fusefs/inode"
)

// CopyUp makes an object that must not be changed one that may: it is copied without a
// lock held (Prepare), and the copy takes its place (Commit).
type CopyUp struct {
	l     *Layers
	n     *inode.Node
	empty bool
	s     *staged
}

// CopyUp begins; ok is false if the object may be changed already. empty says that its
// content does not matter. Drop must be called at the end.
func (l *Layers) CopyUp(n *inode.Node, empty bool) (c *CopyUp, ok bool) {
	if !n.CopyUp() && !l.stranded(n) {
		return nil, false
	}
	return &CopyUp{l: l, n: n, empty: empty}, true
}

// Prepare makes the copy, and may be called again. No lock is held.
func (c *CopyUp) Prepare(ctx context.Context) (e syscall.Errno) {
	c.s.drop()
	c.s, e = c.l.stage(ctx, c.n, c.empty)
	return e
}

// Commit puts it in the object's place. The name lock is held for writing.
func (c *CopyUp) Commit() syscall.Errno { return c.l.settleStaged(c.n, c.s) }

// Drop removes a copy that was not used.
func (c *CopyUp) Drop() { c.s.drop() }

// settleStaged puts the copy in the object's place in the tree. The name lock is held for
// writing.
func (l *Layers) settleStaged(n *inode.Node, s *staged) syscall.Errno {
	refs := l.Tree.Refs(n)
	if len(refs) == 0 {
		return l.settleNameless(n, s)
	}
	if !n.CopyUp() {
		return 0
	}
	if len(refs) != 1 {
		return syscall.EROFS
	}
	parent, name := refs[0].Parent, refs[0].Name
	low := n.Root() == l.lower
	root := n.Root()
	if low {
		root = 0
	}
	if n.IsDir() {
		return l.CopyUpDir(n)
	}
	if s == nil {
		return syscall.ESTALE
	}
	st, e := l.Stat(n)
	if e != 0 {
		return e
	}
	var d *DirFD
	if low {
		d, e = l.mirror(parent, root)
	} else {
		d, e = l.Dir(parent, root)
	}
	if e != 0 {
		return e
	}
	defer l.dirs.put(d)
	if !low {
		if now, e := backing.StatAt(d.FD, name); e != 0 || !n.Is(&now) {
			return syscall.ESTALE
		}
	}
	if e := s.put(d.FD, name, !low); e != 0 {
		return e
	}
	if low { // else it is in the place of another
		l.Made(parent, name, 1)
	}
	if st, e = backing.StatAt(d.FD, name); e != 0 {
		return e
	}
	l.rekey(n, l.Undated.KeyOf(root, &st))
	return n.Files.Reopen(opensAt(d.FD, name), &st)
}

// CopyUpDir makes a directory of the lower root one of the tree.
func (l *Layers) CopyUpDir(n *inode.Node) syscall.Errno {
	if n.Root() != l.lower || !n.IsDir() {
		return 0
	}
	d, e := l.mirror(n, 0)
	if e == 0 {
		l.dirs.put(d)
	}
	return e
}

// errnoLogged is errnoOf for a fault that a person should know of.
func (l *Layers) errnoLogged(op string, err error) syscall.Errno {
	if err == nil {
		return 0
	}
	l.Log.Error("shared name not made private", slog.String("op", op), slog.Any("err", err))
	return backing.Errno(err)
}

// rekey makes a node stand for another object. The kernel notices nothing but
// another inode number. The name lock is held for writing.
func (l *Layers) rekey(n *inode.Node, k inode.Key) {
	l.Tree.Rekey(n, k)
	l.Drop(n)
}
