package fusefs

import (
	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
	"polis/fusefs/inode"
)

// ObjectCounter is a Guard that keeps count of what there is in the backing
// directories: files, directories, links, pipes and sockets, each once however
// many names it has.
type ObjectCounter interface {
	// Counted is called when there is one more (n is 1) since path was made, or one
	// less (-1) since the last name of one, path, was removed or replaced. One
	// that is open yet when its last name goes counts no more, and one that never
	// had a name does not count. It must not block.
	Counted(path string, n int)
}

func (fs *FS) counted(parent *inode.Node, name string, n int) {
	if fs.counter != nil {
		fs.counter.Counted(fs.tree.Child(parent, name), n)
	}
}

// uncounted is for a name that was removed or replaced; st is how its object
// was before.
func (fs *FS) uncounted(parent *inode.Node, name string, st *unix.Statx_t) {
	if backing.IsDir(st) || st.Nlink <= 1 {
		fs.counted(parent, name, -1)
	}
}

// Makes reports whether an operation is there to make a new file, directory, link,
// pipe or socket. (Other operations can: see Shared.)
func (op Op) Makes() bool {
	switch op {
	case OpCreate, OpTmpfile, OpMknod, OpMkdir, OpSymlink:
		return true
	}
	return false
}

// Adds reports whether an operation may take space on the disk.
func (op Op) Adds() bool {
	switch op {
	case OpUnlink, OpRmdir, OpRename, OpExchange, OpRemovexattr, OpSetattr:
		return false
	}
	return true
}
