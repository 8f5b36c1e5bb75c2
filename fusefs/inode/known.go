package inode

// Remember stores a verdict unless a name has changed since it was asked for.
func (t *Table) Remember(n *Node, verdict, edits uint64) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.edits.Load() == edits {
		n.Verdict.Store(verdict)
	}
}

// Routed is the root of a known name whose path is what it was when the root
// was found out: the verdict that was given then is of this generation.
func (t *Table) Routed(parent *Node, name string, generation uint64) (root int, ok bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	n := parent.children[name]
	if n == nil || generation == 0 || !n.only(parent, name) || n.Verdict.Load()>>GenerationShift != generation>>GenerationShift {
		return 0, false
	}
	return n.Root(), true
}

// WasNamed says whether the object has a name, or had one that was removed.
func (t *Table) WasNamed(n *Node) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return n.first.Parent != nil || n.gone != nil && n.gone.attr != nil
}

// Rekey replaces a node's object; k.own says that the new one is to be copied up, too.
func (t *Table) Rekey(n *Node, k Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byK[n.Key] == n {
		delete(t.byK, n.Key)
	}
	if k.Own != 0 {
		k.Own = n.ID
	}
	n.Key = k
	n.CopyUp.Store(k.Own != 0)
	t.byK[k] = n
}
