package fusefs

import (
	"slices"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
	"polis/fusefs/inode"
	"polis/fusefs/openfile"
)

// The kernel reports to those who watch a tree (inotify(7)) what is done through the mount, and nothing else.
// After a change behind the view a thread of this process repeats it through the mount: the echo (see
// echothread.go). The view recognises that thread by its number, which the kernel puts into each request, and
// answers from what is on the disk already. It never changes the disk for that thread, calls no guard, counts
// nothing and takes no lease. A request of any other thread is never answered so.

// echoing is an echo that is in progress.
type echoing struct {
	tid uint32

	mu sync.Mutex
	// gone are the paths whose objects were removed: the way to one leads through others. It does not change.
	gone map[string]formerly
	// making is the path that the thread makes now. removing is set while it removes something.
	making   string
	removing bool
}

// formerly is what had a name.
type formerly struct {
	kind     uint32 // S_IFMT bits
	replaced bool   // another object has the name now
}

// echoOf returns the echo whose thread made a request, or nil.
func (fs *FS) echoOf(h *fuse.InHeader) *echoing {
	if all := fs.echo.Load(); all != nil && h.Uid == 0 {
		for _, m := range *all {
			if h.Pid == m.tid {
				return m
			}
		}
	}
	return nil
}

// recognise has the view recognise the thread of an echo until end is called, by that thread.
func (fs *FS) recognise(m *echoing) (end func()) {
	change := func(edit func([]*echoing) []*echoing) {
		fs.echoes.mu.Lock()
		defer fs.echoes.mu.Unlock()
		var all []*echoing
		if p := fs.echo.Load(); p != nil {
			all = slices.Clone(*p)
		}
		if all = edit(all); len(all) == 0 {
			fs.echo.Store(nil)
			return
		}
		fs.echo.Store(&all)
	}
	change(func(all []*echoing) []*echoing { return append(all, m) })
	return func() {
		change(func(all []*echoing) []*echoing {
			return slices.DeleteFunc(all, func(o *echoing) bool { return o == m })
		})
	}
}

// step sets what the thread does next.
func (m *echoing) step(making string, removing bool) {
	m.mu.Lock()
	m.making, m.removing = making, removing
	m.mu.Unlock()
}

// onDisk is what is at a name below the view, and in which root. The name lock is held.
func (fs *FS) onDisk(parent *inode.Node, name string) (st unix.Statx_t, root int, e syscall.Errno) {
	p, e := fs.layers.At(parent, name)
	if e != 0 {
		return st, p.Root, e
	}
	defer fs.layers.Put(p.Dir)
	st, e = backing.StatAt(p.Dir.FD, name)
	return st, p.Root, e
}

// standIn is the key of an inode that stands for an object while its name is made or removed once more.
func (fs *FS) standIn() inode.Key {
	return inode.Key{Ino: 1<<63 | fs.standIns.Add(1)} // no device has the number 0
}

// makeable reports whether a name can be made once more. The kernel must know nothing of a directory: it would unmount
// what is mounted below. Another object can be known, by this name and by others (see echoMake).
func (fs *FS) makeable(parent *inode.Node, name string) bool {
	st, root, e := fs.onDisk(parent, name)
	return e == 0 && (!backing.IsDir(&st) || !fs.tree.Knows(parent, name, fs.layers.KeyAt(parent, name, root, &st)))
}

// absent reports whether an error of onDisk says that there is nothing.
func absent(e syscall.Errno) bool {
	return e == syscall.ENOENT || e == syscall.ESTALE || e == syscall.ENOTDIR
}

// echoLookup answers the look-up of a name that is about to be made or removed once more: the one is not there
// yet, the other still is. ok is false for every other name, which is looked up as for any caller.
func (fs *FS) echoLookup(m *echoing, parent *inode.Node, name string, out *fuse.EntryOut) (e syscall.Errno, ok bool) {
	path := fs.tree.Child(parent, name)
	m.mu.Lock()
	defer m.mu.Unlock()
	was, gone := m.gone[path]
	if gone = gone && m.removing; !gone && path != m.making {
		return 0, false
	}
	fs.tree.Names.RLock()
	defer fs.tree.Names.RUnlock()
	known := fs.tree.At(parent, name)
	if path == m.making {
		return syscall.ENOENT, fs.makeable(parent, name)
	}
	st, _, e := fs.onDisk(parent, name)
	kind := was.kind
	if there := e == 0 && was.replaced && (known == nil || !known.Is(&st)); !there && !absent(e) {
		return 0, false
	}
	if !fs.guard.Visible(path, kind == unix.S_IFDIR) {
		return 0, false
	}
	k := fs.standIn()
	if known != nil && known.Kind() == kind {
		k = known.Key
	}
	n := fs.tree.Ref(parent, name, k, kind, 0)
	out.NodeId, out.Generation = n.ID, 1
	out.Attr = fs.formerAttr(n)
	return 0, true // and the kernel keeps neither the name nor the attributes
}

// formerAttr are the attributes of an object whose name was removed behind the view, while it is removed once more.
func (fs *FS) formerAttr(n *inode.Node) fuse.Attr {
	if st, ok := openedAttr(n); ok {
		var a fuse.Attr
		fs.attr(&st, &a)
		a.Nlink = max(a.Nlink, 1)
		return a
	}
	return fuse.Attr{Ino: n.Key.Ino, Mode: n.Kind() | 0o700, Nlink: 1, Blksize: 4096}
}

// openedAttr reads the attributes of an object by a file that is open.
func openedAttr(n *inode.Node) (unix.Statx_t, bool) {
	fd, ok := n.Files.Dup()
	if !ok {
		return unix.Statx_t{}, false
	}
	defer backing.Close(fd)
	st, e := backing.StatAt(fd, "")
	return st, e == 0
}

// echoRemove answers unlink and rmdir: the name must have gone, or be another object's.
func (fs *FS) echoRemove(parent *inode.Node, name string, dir bool) syscall.Errno {
	fs.tree.Names.Lock()
	defer fs.tree.Names.Unlock()
	n := fs.tree.At(parent, name)
	if n == nil || n.IsDir() != dir || !fs.guard.Visible(fs.tree.Child(parent, name), dir) {
		return syscall.ENOENT
	}
	if st, _, e := fs.onDisk(parent, name); e == 0 && n.Is(&st) || e != 0 && !absent(e) {
		return syscall.EPERM
	}
	var left *fuse.Attr
	if st, ok := openedAttr(n); ok && st.Nlink == 0 {
		left = &fuse.Attr{}
		fs.attr(&st, left)
	}
	fs.tree.Unlinked(parent, name, left)
	if n.IsDir() {
		fs.layers.Drop(n)
	}
	return 0
}

// echoMake answers mknod, mkdir and symlink. What is made must be there. The kernel takes the attributes of what is made
// for the newest, and programs change objects that they know meanwhile. So it gets an inode that stands for
// the object, and keeps the name for no time: the next look-up, also of this thread, finds the object.
func (fs *FS) echoMake(parent *inode.Node, name string, mode uint32, out *fuse.EntryOut) syscall.Errno {
	fs.tree.Names.RLock()
	defer fs.tree.Names.RUnlock()
	st, _, e := fs.onDisk(parent, name)
	switch path := fs.tree.Child(parent, name); {
	case e != 0:
		return e
	case (uint32(st.Mode)^mode)&unix.S_IFMT != 0 || !fs.makeable(parent, name):
		return syscall.EEXIST
	case backing.IsDir(&st): // the kernel does not know it
		return fs.find(parent, name, out)
	case !fs.guard.Visible(path, false):
		return syscall.ENOENT
	}
	n := fs.tree.Ref(nil, "", fs.standIn(), uint32(st.Mode), 0)
	fs.tree.SetNameless(n, fs.tree.Path(parent))
	out.NodeId, out.Generation = n.ID, 1
	out.Attr = fuse.Attr{Ino: n.Key.Ino, Mode: uint32(st.Mode), Nlink: 1, Blksize: 4096, Owner: fuse.Owner{Uid: st.Uid, Gid: st.Gid}}
	return 0
}

// echoGetAttr answers stat, and utimensat as if it had been done. The kernel also needs the attributes of a directory on
// the way to what has gone.
func (fs *FS) echoGetAttr(n *inode.Node, out *fuse.AttrOut) syscall.Errno {
	fs.tree.Names.RLock()
	defer fs.tree.Names.RUnlock()
	e := fs.fillAttr(n, out)
	if n.IsDir() && absent(e) {
		*out, e = fuse.AttrOut{Attr: fs.formerAttr(n)}, 0
	}
	return e
}

// echoOpen opens a file that the thread closes again: for writing as the kernel has it, but for reading on the disk.
func (fs *FS) echoOpen(n *inode.Node, in *fuse.OpenIn, out *fuse.OpenOut) syscall.Errno {
	if e := fs.reserve(&in.InHeader); e != 0 {
		return e
	}
	fs.tree.Names.RLock()
	defer fs.tree.Names.RUnlock()
	h := &handle{node: n, Handle: openfile.Handle{FD: -1}}
	fd, st, e := fs.layers.Open(n, unix.O_RDONLY|unix.O_NONBLOCK)
	if e != 0 {
		fs.files.Budget.Unreserve()
		return e
	}
	h.FD = fd
	// Not passed through: the kernel would open the file below for writing.
	fs.passthrough.Attach(&n.Files, &h.Handle, openfile.Opening{Attr: &st, Replaceable: true}, out)
	if out.OpenFlags&fuse.FOPEN_PASSTHROUGH != 0 {
		n.Files.Remove(&h.Handle)
		backing.Close(fd)
		fs.files.Budget.Unreserve()
		*out = fuse.OpenOut{}
		return syscall.EBUSY
	}
	out.Fh = fs.files.Add(h)
	return 0
}
