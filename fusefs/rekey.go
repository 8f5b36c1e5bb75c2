package fusefs

import (
	"polis/fusefs/inode"
)

// rekey makes a node stand for another object. The kernel notices nothing but
// another inode number. The name lock is held for writing.
func (fs *FS) rekey(n *inode.Node, k inode.Key) {
	fs.tree.Rekey(n, k)
	fs.dirs.drop(n, len(fs.roots))
}
