package fusefs

import (
	"context"
	"errors"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
	"polis/fusefs/inode"
	"polis/fusefs/overlay"
)

// Rename moves a name, or exchanges two.
func (fs *FS) Rename(cancel request, in *fuse.RenameIn, oldName, newName string) fuse.Status {
	if e := validName(oldName); e != 0 {
		return status(e)
	}
	if e := validName(newName); e != 0 {
		return status(e)
	}
	switch in.Flags {
	case 0, unix.RENAME_NOREPLACE, unix.RENAME_EXCHANGE:
	case unix.RENAME_WHITEOUT, unix.RENAME_WHITEOUT | unix.RENAME_NOREPLACE:
		if !fs.upper() {
			return fuse.EINVAL // whiteouts are device nodes
		}
	default:
		return fuse.EINVAL
	}
	op, np := fs.tree.Get(in.NodeId), fs.tree.Get(in.Newdir)
	if op == nil || np == nil {
		return status(syscall.ESTALE)
	}
	r := &renaming{fs: fs, Move: overlay.Move{OldParent: op, NewParent: np, OldName: oldName, NewName: newName, Flags: in.Flags}}
	m := mutation{op: OpRename, exclusive: true, temp: &r.temp, names: &r.names, always: fs.layers.Merges() || fs.upper(), targets: r.targets, publish: r.publish, do: r.do}
	if fs.layers.Merges() {
		r.Over = r.forgetLower
	}
	if in.Flags == unix.RENAME_EXCHANGE {
		m.op = OpExchange
	}
	return status(fs.revalidated(fs.change(cancel, &in.InHeader, m), op, np))
}

type renaming struct {
	fs *FS
	overlay.Move
	temp  tempTicket
	names openNames
	// shown are the objects the guard was shown by Publish: what is moved
	// must still be them. dirs has those of them that were directories.
	shown [2]*inode.Key
	dirs  [2]bool
}

// targets names both ends. A directory takes everything below both ends along.
func (r *renaming) targets() ([]Target, syscall.Errno) {
	from, e := r.fs.targetAt(r.OldParent, r.OldName)
	if e != 0 {
		return nil, e
	}
	to := Target{Path: r.fs.tree.Child(r.NewParent, r.NewName), Dir: from.Dir}
	if r.Exchange() {
		if to, e = r.fs.targetAt(r.NewParent, r.NewName); e != 0 {
			return nil, e
		}
	}
	r.dirs = [2]bool{from.Dir, to.Dir}
	from.Tree = from.Dir || to.Dir
	to.Tree = from.Tree
	return []Target{from, to}, 0
}

// targetAt is the target for an existing name. What the kernel knows needs no look-up: do checks
// that it still holds.
func (fs *FS) targetAt(parent *inode.Node, name string) (Target, syscall.Errno) {
	t := Target{Path: fs.tree.Child(parent, name)}
	if n := fs.tree.At(parent, name); n != nil && !fs.layers.Merges() {
		t.Dir, t.File, t.Whiteout = n.IsDir(), n.IsRegular(), fs.upper() && n.Kind() == unix.S_IFCHR
		return t, 0
	}
	p, e := fs.layers.At(parent, name)
	if e != 0 {
		return t, e
	}
	defer fs.layers.Put(p.Dir)
	st, e := backing.StatAt(p.Dir.FD, name)
	t.Dir, t.File, t.Whiteout = backing.IsDir(&st), st.Mode&unix.S_IFMT == unix.S_IFREG, fs.upper() && st.Mode&unix.S_IFMT == unix.S_IFCHR
	return t, e
}

func (r *renaming) publish(ctx context.Context, c Caller, t []Target) syscall.Errno {
	e := r.fs.layers.CopyUpMoved(&r.Move)
	if e != 0 {
		return e
	}
	e = r.show(ctx, c, 0, r.OldParent, r.OldName, t[0].Path, t[1].Path)
	if e == 0 && r.Exchange() {
		e = r.show(ctx, c, 1, r.NewParent, r.NewName, t[1].Path, t[0].Path)
	}
	return e
}

// show opens what is at parent/name and puts it to Guard.Publish.
func (r *renaming) show(ctx context.Context, c Caller, i int, parent *inode.Node, name, from, to string) syscall.Errno {
	if r.fs.unread {
		return 0
	}
	fd, k, e := r.fs.contentAt(parent, name)
	if e != 0 {
		return e
	}
	if fd >= 0 {
		defer backing.Close(fd)
	}
	r.shown[i] = &k
	return r.fs.guard.Publish(ctx, c, from, to, fd)
}

// contentAt opens a regular file for reading; other objects give -1.
func (fs *FS) contentAt(parent *inode.Node, name string) (int, inode.Key, syscall.Errno) {
	fs.tree.Names.RLock()
	defer fs.tree.Names.RUnlock()
	p, e := fs.layers.At(parent, name)
	if e != 0 {
		return -1, inode.Key{}, e
	}
	defer fs.layers.Put(p.Dir)
	st, e := backing.StatAt(p.Dir.FD, name)
	if e != 0 || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return -1, fs.layers.Undated.KeyOf(p.Root, &st), e
	}
	fd, e := backing.OpenAt(p.Dir.FD, name, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if e != 0 {
		return -1, inode.Key{}, backing.Stale(e)
	}
	if st, e = backing.StatAt(fd, ""); e != 0 {
		backing.Close(fd)
		return -1, inode.Key{}, e
	}
	return fd, fs.layers.Undated.KeyOf(p.Root, &st), 0
}

func (r *renaming) do() syscall.Errno {
	fs := r.fs
	from, e := fs.layers.At(r.OldParent, r.OldName)
	if e != 0 {
		return e
	}
	defer fs.layers.Put(from.Dir)
	if fs.layers.Route(fs.tree.Child(r.NewParent, r.NewName)) != from.Root {
		return syscall.EXDEV
	}
	if e := r.temp.free(fs, r.NewParent, r.NewName); e != 0 {
		return e
	}
	if e := fs.layers.WhiteOutMoved(&r.Move, from); e != 0 {
		return e
	}
	to, e := fs.layers.AtNew(r.NewParent, r.NewName)
	if e != 0 {
		return e
	}
	defer fs.layers.Put(to.Dir)
	src, e := backing.StatAt(from.Dir.FD, r.OldName)
	if e != 0 {
		return e
	}
	dst, e := backing.StatAt(to.Dir.FD, r.NewName)
	if e != 0 && e != syscall.ENOENT {
		return e
	}
	replaced := e == 0
	if r.dirs[0] != backing.IsDir(&src) || r.Exchange() && replaced && r.dirs[1] != backing.IsDir(&dst) {
		return syscall.ESTALE // not what the guard was asked about
	}
	if fs.waitedFor(uint32(src.Mode), r.NewName) || r.Exchange() && fs.waitedFor(uint32(dst.Mode), r.OldName) {
		return syscall.EPERM
	}
	if k := r.shown[0]; k != nil && *k != fs.layers.Undated.KeyOf(from.Root, &src) {
		return syscall.ESTALE
	}
	if k := r.shown[1]; k != nil && (!replaced || *k != fs.layers.Undated.KeyOf(to.Root, &dst)) {
		return syscall.ESTALE
	}
	if backing.IsDir(&src) || r.Exchange() && backing.IsDir(&dst) {
		if fs.layers.Mirrored(r.OldParent, r.OldName, from.Root) || fs.layers.Mirrored(r.NewParent, r.NewName, to.Root) {
			return syscall.EXDEV
		}
	}
	if e := r.temp.markAt(from.Dir.FD, r.OldName, &src); e != 0 {
		return e
	}
	var over *inode.Node
	was := dst
	if known := fs.tree.At(r.NewParent, r.NewName); known != nil && known.CopyUp() {
		dst.Nlink = 1 // this name is all the node has
	}
	if replaced && !r.Exchange() {
		if over, e = fs.holdLast(r.NewParent, r.NewName, to.Dir.FD); e != 0 {
			return e
		}
	}
	flags := uint(r.Flags)
	if flags == 0 && fs.writeOnce != nil && fs.writeOnce.Lasts(fs.tree.Child(r.NewParent, r.NewName)) {
		if replaced {
			fs.unpin(over)
			return syscall.EEXIST
		}
		flags = unix.RENAME_NOREPLACE
	}
	err := unix.Renameat2(from.Dir.FD, r.OldName, to.Dir.FD, r.NewName, flags)
	if flags != uint(r.Flags) && errors.Is(err, unix.EINVAL) { // the file system does not know that flag
		err = unix.Renameat2(from.Dir.FD, r.OldName, to.Dir.FD, r.NewName, uint(r.Flags))
	}
	if err != nil {
		fs.unpin(over)
		return backing.Errno(err)
	}
	r.moved()
	if r.Exchange() {
		fs.tree.Exchanged(r.OldParent, r.OldName, r.NewParent, r.NewName)
		fs.rekeep(r.OldParent, r.OldName)
		fs.rekeep(r.NewParent, r.NewName)
		return 0
	}
	if replaced {
		fs.uncounted(r.NewParent, r.NewName, &was)
		fs.gone(r.NewParent, r.NewName, &dst)
	}
	fs.tree.Renamed(r.OldParent, r.OldName, r.NewParent, r.NewName)
	if r.Flags&unix.RENAME_WHITEOUT != 0 {
		fs.counted(r.OldParent, r.OldName, 1)
	}
	fs.none.Cut(r.NewParent.ID, r.NewName)
	fs.rekeep(r.NewParent, r.NewName)
	return 0
}

// moved records which files have other names now. The tree has the old ones yet.
func (r *renaming) moved() {
	tree := r.fs.tree
	from, to := tree.Child(r.OldParent, r.OldName), tree.Child(r.NewParent, r.NewName)
	a, b := tree.At(r.OldParent, r.OldName), tree.At(r.NewParent, r.NewName)
	r.names.lost(a, from)
	r.names.lost(b, to)
	r.names.got(a, to)
	if r.Exchange() {
		r.names.got(b, from)
	}
}

// forgetLower records that the object at the new name, which is in the lower root only,
// is replaced.
func (r *renaming) forgetLower(dir int, st *unix.Statx_t) syscall.Errno {
	st.Nlink = 1 // this name is all the node has
	if _, e := r.fs.holdLast(r.NewParent, r.NewName, dir); e != 0 {
		return e
	}
	r.fs.gone(r.NewParent, r.NewName, st)
	return 0
}

// rekeep computes again what may be kept of an object that has another name.
func (fs *FS) rekeep(parent *inode.Node, name string) {
	if n := fs.tree.At(parent, name); n != nil {
		before := n.SetKeep(uint32(fs.keepName(parent, name)))
		fs.unkeep(parent, name, Keep(before))
	}
}
