package inode

import "hash/maphash"

// children are the known names in a directory. Most nodes have one name, and it is kept there;
// only others are kept here. Table.mu is held in every method.
type children struct {
	first nodeSet          // nodes, by their first name, which is in this directory
	more  map[string]*Node // by another name; it may have become the first since
}

// child is what the kernel knows under a name, if anything.
func (t *Table) child(parent *Node, name string) *Node {
	if parent.rare == nil {
		return nil
	}
	c := &parent.rare.children
	if c.first.n > 0 {
		h := t.hashName(name)
		for at := 0; ; {
			n := c.first.next(h, &at)
			if n == nil {
				break
			}
			if n.first.Name == name {
				return n
			}
		}
	}
	return c.more[name]
}

// setChild adds a name that is nobody's. That it is one of n's is known already.
func (t *Table) setChild(parent *Node, name string, n *Node) {
	c := &parent.more().children
	if n.first == (Name{parent, name}) {
		c.first.add(n, t.hashFirst)
		return
	}
	if c.more == nil {
		c.more = map[string]*Node{}
	}
	c.more[name] = n
}

// cutChild removes a name of n, while it is still one of n's.
func (t *Table) cutChild(parent *Node, name string, n *Node) {
	c := &parent.rare.children
	if c.more[name] == n {
		if delete(c.more, name); len(c.more) == 0 {
			c.more = nil // it may have had room for many
		}
		return
	}
	c.first.cut(n, t.hashName(name), t.hashFirst)
}

// hasChildren reports whether a name in the directory is known.
func (n *Node) hasChildren() bool {
	return n.rare != nil && (n.rare.children.first.n > 0 || len(n.rare.children.more) > 0)
}

// Names are an agent's: the hash has a secret, so that nobody can choose names of one hash.
func (t *Table) hashName(name string) uint64 { return maphash.String(t.seed, name) }
func (t *Table) hashFirst(n *Node) uint64    { return maphash.String(t.seed, n.first.Name) }
