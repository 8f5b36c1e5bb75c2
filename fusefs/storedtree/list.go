package storedtree

import (
	"github.com/hanwen/go-fuse/v2/fuse"

	"polis/fusefs/conn"
)

// ReadDir lists a directory.
func (fs *FS) ReadDir(_ *conn.Call, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return fs.list(in, func(_ *node, e fuse.DirEntry) bool { return out.AddDirEntry(e) })
}

// ReadDirPlus lists it with what a look-up would return.
func (fs *FS) ReadDirPlus(_ *conn.Call, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return fs.list(in, func(dir *node, e fuse.DirEntry) bool {
		slot := out.AddDirLookupEntry(e)
		if slot == nil {
			return false
		}
		*slot = fuse.EntryOut{}
		if e.Name != "." && e.Name != ".." {
			fs.entry(dir.at[e.Name], slot)
		}
		return true
	})
}

func (fs *FS) list(in *fuse.ReadIn, add func(dir *node, e fuse.DirEntry) bool) fuse.Status {
	dir := fs.node(in.NodeId)
	if dir == nil || dir.at == nil {
		return fuse.ENOTDIR
	}
	for i := min(in.Offset, uint64(len(dir.names))); i < uint64(len(dir.names)); i++ {
		e := dir.names[i]
		if i > 1 && !fs.visible(&fs.nodes[e.Ino]) {
			continue
		}
		if e.Off = i + 1; !add(dir, e) {
			break
		}
	}
	return fuse.OK
}
