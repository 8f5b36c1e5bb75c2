package fusefs

// rekey makes a node stand for another object. The kernel notices nothing but
// another inode number. ns is held for writing.
func (fs *FS) rekey(n *node, k key) {
	fs.tree.rekey(n, k)
	fs.dirs.drop(n, len(fs.roots))
}

// rekey replaces a node's object; k.own says that the new one is to be copied up, too.
func (t *tree) rekey(n *node, k key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byK[n.key] == n {
		delete(t.byK, n.key)
	}
	if k.own != 0 {
		k.own = n.id
	}
	n.key = k
	n.copyUp.Store(k.own != 0)
	t.byK[k] = n
}
