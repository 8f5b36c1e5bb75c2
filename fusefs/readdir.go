package fusefs

import (
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// dirStream is one open directory: a snapshot of its visible names, taken when
// reading starts and again after rewinddir. Offsets are indexes into it.
type dirStream struct {
	mu      sync.Mutex
	entries []fuse.DirEntry
	loaded  bool
}

// OpenDir opens a directory for listing.
func (fs *FS) OpenDir(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	n := fs.tree.get(in.NodeId)
	if n == nil {
		return status(syscall.ESTALE)
	}
	if !n.isDir() {
		return fuse.ENOTDIR
	}
	e := fs.read(cancel, &in.InHeader, OpReaddir, n, func(string) syscall.Errno { return 0 })
	if e != 0 {
		return status(e)
	}
	if e := fs.files.reserve(); e != 0 {
		return status(e)
	}
	out.Fh = fs.files.add(&handle{node: n, fd: -1, dir: &dirStream{}})
	if fs.timeout > 0 {
		out.OpenFlags = fuse.FOPEN_CACHE_DIR | fuse.FOPEN_KEEP_CACHE
	}
	return fuse.OK
}

// ReleaseDir ends a listing.
func (fs *FS) ReleaseDir(in *fuse.ReleaseIn) { fs.files.take(in.Fh) }

// ReadDir lists names.
func (fs *FS) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return fs.list(in, func(_ *node, e fuse.DirEntry) bool { return out.AddDirEntry(e) })
}

// ReadDirPlus lists names with their attributes; each counts as a look-up.
func (fs *FS) ReadDirPlus(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return fs.list(in, func(n *node, e fuse.DirEntry) bool {
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

func (fs *FS) list(in *fuse.ReadIn, add func(*node, fuse.DirEntry) bool) fuse.Status {
	h := fs.files.get(in.Fh)
	if h == nil || h.dir == nil {
		return fuse.EBADF
	}
	fs.ns.RLock()
	defer fs.ns.RUnlock()
	h.dir.mu.Lock()
	defer h.dir.mu.Unlock()
	if in.Offset == 0 || !h.dir.loaded {
		entries, e := fs.snapshot(h.node)
		if e != 0 {
			return status(e)
		}
		h.dir.entries, h.dir.loaded = entries, true
	}
	for i := in.Offset; i < uint64(len(h.dir.entries)); i++ {
		e := h.dir.entries[i]
		e.Off = i + 1
		if !add(h.node, e) {
			break
		}
	}
	return fuse.OK
}

// snapshot reads the names of a directory, merged over the roots: a name is
// shown if it exists in the root it is routed to and the guard shows it.
func (fs *FS) snapshot(n *node) ([]fuse.DirEntry, syscall.Errno) {
	self := n.key.ino
	entries := []fuse.DirEntry{
		{Name: ".", Ino: self, Mode: unix.S_IFDIR},
		{Name: "..", Ino: self, Mode: unix.S_IFDIR},
	}
	path := fs.tree.path(n)
	for root := range fs.roots {
		if root != n.key.root && n.key.root != 0 {
			continue // below an overlay everything is in the overlay
		}
		d, e := fs.dir(n, root)
		if e != 0 {
			if root != n.key.root {
				continue
			}
			if fs.tree.deadAttr(n) != nil {
				return nil, 0 // removed while open: empty
			}
			return nil, e
		}
		names, e := readNames(d.fd)
		fs.dirs.put(d)
		if e != 0 {
			return nil, e
		}
		for _, en := range names {
			p := en.Name
			if path != "" {
				p = path + "/" + en.Name
			}
			if fs.route(p) == root && fs.guard.Visible(p, en.Mode == unix.S_IFDIR) {
				entries = append(entries, en)
			}
		}
	}
	return entries, 0
}

// readNames reads a whole directory, without . and ..
func readNames(dir int) ([]fuse.DirEntry, syscall.Errno) {
	fd, e := openAt(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if e != 0 {
		return nil, e
	}
	defer closeFD(fd)
	var out []fuse.DirEntry
	buf := make([]byte, 32<<10)
	for {
		n, err := unix.Getdents(fd, buf)
		if err != nil {
			return nil, errnoOf(err)
		}
		if n == 0 {
			return out, 0
		}
		for b := buf[:n]; len(b) > 0; {
			var en fuse.DirEntry
			size := en.Parse(b)
			b = b[size:]
			if en.Name == "." || en.Name == ".." {
				continue
			}
			if en.Mode == 0 { // a file system that does not tell types
				st, e := statAt(fd, en.Name)
				if e != 0 {
					continue
				}
				en.Mode = uint32(st.Mode) & unix.S_IFMT
			}
			out = append(out, en)
		}
	}
}

// FsyncDir writes a directory to the disk.
func (fs *FS) FsyncDir(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	n := fs.tree.get(in.NodeId)
	if n == nil {
		return status(syscall.ESTALE)
	}
	fs.ns.RLock()
	defer fs.ns.RUnlock()
	d, e := fs.dir(n, n.key.root)
	if e != 0 {
		return status(e)
	}
	defer fs.dirs.put(d)
	fd, e := openAt(d.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if e != 0 {
		return status(e)
	}
	defer closeFD(fd)
	return status(errnoOf(unix.Fsync(fd)))
}
