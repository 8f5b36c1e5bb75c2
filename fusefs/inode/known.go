package inode

import "github.com/hanwen/go-fuse/v2/fuse"

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
	n := t.child(parent, name)
	if n == nil || generation == 0 || !n.only(parent, name) || n.Verdict.Load()>>GenerationShift != generation>>GenerationShift {
		return 0, false
	}
	return n.Root(), true
}

// WasNamed reports whether the object has a name, or had one that was removed.
func (t *Table) WasNamed(n *Node) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return n.first.Parent != nil || n.left() != nil && n.left().attr != nil
}

// Rekey replaces a node's object; k.Own says that the new one is to be copied up, too.
func (t *Table) Rekey(n *Node, k Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byK.cut(n)
	n.Key = k
	n.setCopyUp(k.Own)
	t.byK.add(n)
}

// DeadAttr are the attributes of an object that has no link any more.
func (t *Table) DeadAttr(n *Node) *fuse.Attr {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if g := n.left(); g != nil {
		return g.attr
	}
	return nil
}

// SetNameless records where an object was made that has no name yet.
func (t *Table) SetNameless(n *Node, path string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n.first.Parent == nil {
		n.setGone(&gone{path: path})
	}
}

// Knows reports whether the kernel knows an object, or anything else by the name.
func (t *Table) Knows(parent *Node, name string, k Key) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.child(parent, name) != nil || !k.Own && t.byK.get(k) != nil
}

// Again counts one more look-up of a node.
func (t *Table) Again(n *Node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n.lookups++
}

// All is a copy of the table.
func (t *Table) All() []*Node {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := make([]*Node, 0, t.byID.n)
	t.byID.each(func(n *Node) { out = append(out, n) })
	return out
}
