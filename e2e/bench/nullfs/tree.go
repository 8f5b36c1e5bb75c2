package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"polis/fusefs/conn"
)

// keep is how long the kernel caches everything: nothing changes.
const keep = 24 * time.Hour

// tree is the content of a directory tree at the time it was read.
type tree struct {
	conn.ReadOnly
	nodes []node // by number, from fuse.FUSE_ROOT_ID on
}

type node struct {
	path  string
	text  string // of a symbolic link
	attr  fuse.Attr
	names []fuse.DirEntry // of a directory; "." and ".." are the first two
	at    map[string]uint64
}

// read reads everything below dir.
func read(dir string) (*tree, error) {
	t := &tree{nodes: make([]node, fuse.FUSE_ROOT_ID)}
	number := map[string]uint64{}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return &fs.PathError{Op: "lstat", Path: path, Err: err}
		}
		id := uint64(len(t.nodes))
		n := node{path: path, attr: attr(&st)}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFLNK:
			if n.text, err = os.Readlink(path); err != nil {
				return err
			}
		case unix.S_IFDIR:
			number[path] = id
			n.at = map[string]uint64{}
			n.names = []fuse.DirEntry{{Name: ".", Ino: st.Ino, Mode: unix.S_IFDIR}, {Name: "..", Ino: st.Ino, Mode: unix.S_IFDIR}}
		}
		t.nodes = append(t.nodes, n)
		if id != fuse.FUSE_ROOT_ID {
			above, name := &t.nodes[number[filepath.Dir(path)]], filepath.Base(path)
			above.at[name] = id
			above.names = append(above.names, fuse.DirEntry{Name: name, Ino: st.Ino, Mode: st.Mode})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", dir, err)
	}
	return t, nil
}

// attr returns the attributes with the file's own inode number, which git's index records.
func attr(st *unix.Stat_t) fuse.Attr {
	return fuse.Attr{Ino: st.Ino, Size: uint64(st.Size), Blocks: uint64(st.Blocks), Mode: st.Mode, Nlink: uint32(st.Nlink), Blksize: uint32(st.Blksize),
		Atime: uint64(st.Atim.Sec), Atimensec: uint32(st.Atim.Nsec), Mtime: uint64(st.Mtim.Sec), Mtimensec: uint32(st.Mtim.Nsec),
		Ctime: uint64(st.Ctim.Sec), Ctimensec: uint32(st.Ctim.Nsec), Owner: fuse.Owner{Uid: st.Uid, Gid: st.Gid}}
}

func (t *tree) entry(id uint64, out *fuse.EntryOut) {
	out.NodeId, out.Generation, out.Attr = id, 1, t.nodes[id].attr
	out.SetEntryTimeout(keep)
	out.SetAttrTimeout(keep)
}

// Lookup lets the kernel cache also that a name does not exist.
func (t *tree) Lookup(_ *conn.Call, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	id, ok := t.nodes[h.NodeId].at[name]
	if !ok {
		out.SetEntryTimeout(keep)
		return fuse.OK
	}
	t.entry(id, out)
	return fuse.OK
}

// Forget has nothing to forget.
func (*tree) Forget(uint64, uint64) {}

// GetAttr returns the attributes at the time of reading.
func (t *tree) GetAttr(_ *conn.Call, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	out.Attr = t.nodes[in.NodeId].attr
	out.SetTimeout(keep)
	return fuse.OK
}

// Readlink returns the target of a link.
func (t *tree) Readlink(_ *conn.Call, h *fuse.InHeader, dest []byte) (int, fuse.Status) {
	return copy(dest, t.nodes[h.NodeId].text), fuse.OK
}

// Open lets the kernel read from its cache.
func (*tree) Open(_ *conn.Call, _ *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	out.OpenFlags = fuse.FOPEN_KEEP_CACHE
	return fuse.OK
}

// Read is called once for each page.
func (t *tree) Read(_ *conn.Call, in *fuse.ReadIn, dest []byte) (int, fuse.Status) {
	f, err := os.Open(t.nodes[in.NodeId].path)
	if err != nil {
		return 0, fuse.ToStatus(err)
	}
	defer f.Close()
	n, err := unix.Pread(int(f.Fd()), dest, int64(in.Offset))
	if err != nil {
		return 0, fuse.ToStatus(err)
	}
	return n, fuse.OK
}

// Release has nothing to close.
func (*tree) Release(*conn.Call, *fuse.ReleaseIn) {}

// ReadDir lists a directory.
func (t *tree) ReadDir(_ *conn.Call, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return t.list(in, func(_ *node, e fuse.DirEntry) bool { return out.AddDirEntry(e) })
}

// ReadDirPlus lists it with what a look-up would say.
func (t *tree) ReadDirPlus(_ *conn.Call, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return t.list(in, func(dir *node, e fuse.DirEntry) bool {
		slot := out.AddDirLookupEntry(e)
		if slot == nil {
			return false
		}
		*slot = fuse.EntryOut{}
		if e.Name != "." && e.Name != ".." {
			t.entry(dir.at[e.Name], slot)
		}
		return true
	})
}

func (t *tree) list(in *fuse.ReadIn, add func(dir *node, e fuse.DirEntry) bool) fuse.Status {
	dir := &t.nodes[in.NodeId]
	for i := min(in.Offset, uint64(len(dir.names))); i < uint64(len(dir.names)); i++ {
		e := dir.names[i]
		if e.Off = i + 1; !add(dir, e) {
			break
		}
	}
	return fuse.OK
}

var _ conn.FileSystem = (*tree)(nil)

// StatFs reports nothing: no program of a measurement reads it.
func (t *tree) StatFs(*conn.Call, *fuse.InHeader, *fuse.StatfsOut) fuse.Status { return fuse.OK }
