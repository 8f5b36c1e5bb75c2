package fusefs

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
	"polis/fusefs/inode"
)

// Directories are listed without being opened: OPENDIR is answered ENOSYS, and
// from then on the kernel keeps listings and asks only for those it lacks, so a
// second walk through a tree costs no request at all. There is no handle to
// remember a position in; an entry's offset is a hash of its name, and the
// entries come in the order of their offsets. An offset therefore means the same
// place whatever is created or removed meanwhile, and in whichever root.

// listings bounds the directories whose names are kept between two requests of
// one walk. They are only a cache: the names can always be read again.
const listings = 64

// dirLists keeps the names of directories that are being read.
type dirLists struct {
	seed maphash.Seed
	mu   sync.Mutex
	m    map[uint64][]fuse.DirEntry
}

func (l *dirLists) get(id uint64) []fuse.DirEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.m[id]
}

func (l *dirLists) put(id uint64, entries []fuse.DirEntry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.m == nil {
		l.m = map[uint64][]fuse.DirEntry{}
	}
	for old := range l.m {
		if len(l.m) < listings {
			break
		}
		delete(l.m, old)
	}
	l.m[id] = entries
}

func (l *dirLists) drop(id uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.m, id)
}

func (l *dirLists) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.m = nil
}

// offset is the offset after an entry: 1 and 2 for the directory itself and its
// parent, for others 61 bits of a hash over the name. The hash has a secret, so
// that nobody can make two names of one offset.
func (l *dirLists) offset(name string) uint64 {
	switch name {
	case ".":
		return 1
	case "..":
		return 2
	}
	return maphash.String(l.seed, name)>>3 | 1<<8
}

// OpenDir is not implemented where the kernel may keep every listing; see
// above. Elsewhere an empty answer makes it forget the one at every open.
func (fs *FS) OpenDir(_ request, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if fs.timeout > 0 && fs.keeper == nil {
		return fuse.ENOSYS
	}
	n := fs.tree.Get(in.NodeId)
	if n == nil || !n.IsDir() {
		return status(syscall.ESTALE)
	}
	if Keep(n.Keep())&KeepSharedDir != 0 {
		if e := fs.revalidated(syscall.ENOENT, n); e == syscall.ESTALE {
			return status(e)
		}
	}
	if fs.ttl(Keep(n.Keep()), KeepList) > 0 {
		out.OpenFlags = fuse.FOPEN_CACHE_DIR | fuse.FOPEN_KEEP_CACHE
	}
	return fuse.OK
}

// ReleaseDir has nothing to give back.
func (fs *FS) ReleaseDir(*fuse.ReleaseIn) {}

// ReadDir lists names.
func (fs *FS) ReadDir(cancel request, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return fs.list(cancel, in, func(_ *inode.Node, e fuse.DirEntry) bool { return out.AddDirEntry(e) })
}

// ReadDirPlus lists names with their attributes; each counts as a look-up.
func (fs *FS) ReadDirPlus(cancel request, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return fs.list(cancel, in, func(n *inode.Node, e fuse.DirEntry) bool {
		slot := out.AddDirLookupEntry(e)
		if slot == nil {
			return false
		}
		*slot = fuse.EntryOut{}
		if e.Name != "." && e.Name != ".." {
			if errno := fs.find(n, e.Name, slot); errno != 0 {
				*slot = fuse.EntryOut{} // gone meanwhile: a name without attributes
			}
		}
		return true
	})
}

func (fs *FS) list(cancel request, in *fuse.ReadIn, add func(*inode.Node, fuse.DirEntry) bool) fuse.Status {
	n := fs.tree.Get(in.NodeId)
	if n == nil {
		return status(syscall.ESTALE)
	}
	if !n.IsDir() {
		return fuse.ENOTDIR
	}
	g, e := fs.enterRead(cancel, &in.InHeader, OpReaddir, n)
	if e == 0 {
		e = fs.listFrom(n, in.Offset, add)
	}
	g.leave(e)
	return status(e)
}

func (fs *FS) listFrom(n *inode.Node, off uint64, add func(*inode.Node, fuse.DirEntry) bool) syscall.Errno {
	entries := fs.lists.get(n.ID)
	if off == 0 || entries == nil {
		var e syscall.Errno
		if entries, e = fs.snapshot(n); e != 0 {
			return e
		}
		fs.lists.put(n.ID, entries)
	}
	at, _ := slices.BinarySearchFunc(entries, off+1, func(e fuse.DirEntry, off uint64) int { return cmp.Compare(e.Off, off) })
	if at == len(entries) {
		fs.lists.drop(n.ID) // the end: this walk is over
		return 0
	}
	for _, e := range entries[at:] {
		if !add(n, e) {
			break
		}
	}
	return 0
}

// snapshot reads the names of a directory that the guard shows, sorted by offset.
func (fs *FS) snapshot(n *inode.Node) ([]fuse.DirEntry, syscall.Errno) {
	self := n.Key.Ino
	names, e := fs.layers.List(n, fs.tree.Path(n), fs.guard.Visible)
	if e != 0 {
		if fs.tree.DeadAttr(n) != nil {
			return nil, 0 // removed while open: empty
		}
		return nil, e
	}
	entries := make([]fuse.DirEntry, 0, len(names)+2)
	entries = append(entries,
		fuse.DirEntry{Name: ".", Ino: self, Mode: unix.S_IFDIR, Off: fs.lists.offset(".")},
		fuse.DirEntry{Name: "..", Ino: self, Mode: unix.S_IFDIR, Off: fs.lists.offset("..")})
	for _, en := range names {
		en.Off = fs.lists.offset(en.Name)
		entries = append(entries, en)
	}
	slices.SortFunc(entries, func(a, b fuse.DirEntry) int {
		return cmp.Or(cmp.Compare(a.Off, b.Off), cmp.Compare(a.Name, b.Name))
	})
	return entries, 0
}

// FsyncDir writes a directory to the disk.
func (fs *FS) FsyncDir(_ request, in *fuse.FsyncIn) fuse.Status {
	n := fs.tree.Get(in.NodeId)
	if n == nil {
		return status(syscall.ESTALE)
	}
	fs.tree.Names.RLock()
	defer fs.tree.Names.RUnlock()
	d, e := fs.layers.Dir(n, n.Root())
	if e != 0 {
		return status(e)
	}
	defer fs.layers.Put(d)
	fd, e := backing.OpenAt(d.FD, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if e != 0 {
		return status(e)
	}
	defer backing.Close(fd)
	return status(backing.Errno(unix.Fsync(fd)))
}
