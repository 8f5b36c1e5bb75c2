package fusefs

import (
	"context"
	"errors"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
	"polis/fusefs/inode"
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
	default:
		return fuse.EINVAL // whiteouts are device nodes
	}
	op, np := fs.tree.Get(in.NodeId), fs.tree.Get(in.Newdir)
	if op == nil || np == nil {
		return status(syscall.ESTALE)
	}
	r := &renaming{fs: fs, op: op, np: np, on: oldName, nn: newName, flags: in.Flags}
	m := mutation{op: OpRename, exclusive: true, always: fs.lower >= 0, targets: r.targets, publish: r.publish, do: r.do}
	if in.Flags == unix.RENAME_EXCHANGE {
		m.op = OpExchange
	}
	return status(fs.revalidated(fs.change(cancel, &in.InHeader, m), op, np))
}

type renaming struct {
	fs     *FS
	op, np *inode.Node
	on, nn string
	flags  uint32
	// shown are the objects the guard was shown by Publish: what is moved
	// must still be them. dirs is what it was told of them.
	shown [2]*inode.Key
	dirs  [2]bool
}

func (r *renaming) exchange() bool { return r.flags == unix.RENAME_EXCHANGE }

// targets names both ends. A directory takes everything below both ends along.
func (r *renaming) targets() ([]Target, syscall.Errno) {
	od, e := r.fs.isDirAt(r.op, r.on)
	if e != 0 {
		return nil, e
	}
	nd := od
	if r.exchange() {
		if nd, e = r.fs.isDirAt(r.np, r.nn); e != 0 {
			return nil, e
		}
	}
	tree := od || nd
	r.dirs = [2]bool{od, nd}
	return []Target{
		{Path: r.fs.tree.Child(r.op, r.on), Dir: od, Tree: tree},
		{Path: r.fs.tree.Child(r.np, r.nn), Dir: nd, Tree: tree},
	}, 0
}

// isDirAt says what a name stands for. What the kernel knows need not be looked
// at: that it still is so, do sees to.
func (fs *FS) isDirAt(parent *inode.Node, name string) (bool, syscall.Errno) {
	if n := fs.tree.At(parent, name); n != nil && fs.lower < 0 {
		return n.IsDir(), 0
	}
	p, e := fs.at(parent, name)
	if e != 0 {
		return false, e
	}
	defer fs.dirs.put(p.dir)
	st, e := backing.StatAt(p.dir.fd, name)
	return st.Mode&unix.S_IFMT == unix.S_IFDIR, e
}

func (r *renaming) publish(ctx context.Context, c Caller, t []Target) syscall.Errno {
	e := r.raise()
	if e != 0 {
		return e
	}
	e = r.show(ctx, c, 0, r.op, r.on, t[0].Path, t[1].Path)
	if e == 0 && r.exchange() {
		e = r.show(ctx, c, 1, r.np, r.nn, t[1].Path, t[0].Path)
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
	p, e := fs.at(parent, name)
	if e != 0 {
		return -1, inode.Key{}, e
	}
	defer fs.dirs.put(p.dir)
	st, e := backing.StatAt(p.dir.fd, name)
	if e != 0 || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return -1, inode.KeyOf(p.root, &st), e
	}
	fd, e := backing.OpenAt(p.dir.fd, name, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if e != 0 {
		return -1, inode.Key{}, backing.Stale(e)
	}
	if st, e = backing.StatAt(fd, ""); e != 0 {
		backing.Close(fd)
		return -1, inode.Key{}, e
	}
	return fd, inode.KeyOf(p.root, &st), 0
}

func (r *renaming) do() syscall.Errno {
	fs := r.fs
	from, e := fs.at(r.op, r.on)
	if e != 0 {
		return e
	}
	defer fs.dirs.put(from.dir)
	if fs.routePath(fs.tree.Child(r.np, r.nn)) != from.root {
		return syscall.EXDEV
	}
	if e := r.unshare(from); e != 0 {
		return e
	}
	to, e := fs.atNew(r.np, r.nn)
	if e != 0 {
		return e
	}
	defer fs.dirs.put(to.dir)
	src, e := backing.StatAt(from.dir.fd, r.on)
	if e != 0 {
		return e
	}
	dst, e := backing.StatAt(to.dir.fd, r.nn)
	if e != 0 && e != syscall.ENOENT {
		return e
	}
	replaced := e == 0
	if r.dirs[0] != backing.IsDir(&src) || r.exchange() && replaced && r.dirs[1] != backing.IsDir(&dst) {
		return syscall.ESTALE // not what the guard was asked about
	}
	if fs.waitedFor(uint32(src.Mode), r.nn) || r.exchange() && fs.waitedFor(uint32(dst.Mode), r.on) {
		return syscall.EPERM
	}
	if k := r.shown[0]; k != nil && *k != inode.KeyOf(from.root, &src) {
		return syscall.ESTALE
	}
	if k := r.shown[1]; k != nil && (!replaced || *k != inode.KeyOf(to.root, &dst)) {
		return syscall.ESTALE
	}
	if backing.IsDir(&src) || r.exchange() && backing.IsDir(&dst) {
		if fs.mirrored(r.op, r.on, from.root) || fs.mirrored(r.np, r.nn, to.root) {
			return syscall.EXDEV
		}
	}
	var over *inode.Node
	was := dst
	if known := fs.tree.At(r.np, r.nn); known != nil && known.CopyUp.Load() {
		dst.Nlink = 1 // this name is all the node has
	}
	if replaced && !r.exchange() {
		if over, e = fs.holdLast(r.np, r.nn, to.dir.fd); e != 0 {
			return e
		}
	}
	flags := uint(r.flags)
	if flags == 0 && fs.writeOnce != nil && fs.writeOnce.Lasts(fs.tree.Child(r.np, r.nn)) {
		if replaced {
			fs.unpin(over)
			return syscall.EEXIST
		}
		flags = unix.RENAME_NOREPLACE
	}
	err := unix.Renameat2(from.dir.fd, r.on, to.dir.fd, r.nn, flags)
	if flags != uint(r.flags) && errors.Is(err, unix.EINVAL) { // the file system does not know that flag
		err = unix.Renameat2(from.dir.fd, r.on, to.dir.fd, r.nn, uint(r.flags))
	}
	if err != nil {
		fs.unpin(over)
		return backing.Errno(err)
	}
	if r.exchange() {
		fs.tree.Exchanged(r.op, r.on, r.np, r.nn)
		fs.rekeep(r.op, r.on)
		fs.rekeep(r.np, r.nn)
		return 0
	}
	if replaced {
		fs.uncounted(r.np, r.nn, &was)
		fs.gone(r.np, r.nn, &dst)
	}
	fs.tree.Renamed(r.op, r.on, r.np, r.nn)
	fs.none.Cut(r.np.ID, r.nn)
	fs.rekeep(r.np, r.nn)
	return 0
}

// rekeep computes anew what may be kept of an object that has another name.
func (fs *FS) rekeep(parent *inode.Node, name string) {
	if n := fs.tree.At(parent, name); n != nil {
		before := n.Keep.Swap(uint32(fs.keepName(parent, name)))
		fs.unkeep(parent, name, Keep(before))
	}
}

// mirrored says whether a directory has a counterpart in another root. Such a
// directory cannot be moved in one step.
func (fs *FS) mirrored(parent *inode.Node, name string, root int) bool {
	if root != 0 {
		return false // below an overlay everything is in the overlay
	}
	for i := 1; i < fs.owned(); i++ {
		d, e := fs.dir(parent, i)
		if e != 0 {
			continue
		}
		_, e = backing.StatAt(d.fd, name)
		fs.dirs.put(d)
		if e == 0 {
			return true
		}
	}
	return false
}
