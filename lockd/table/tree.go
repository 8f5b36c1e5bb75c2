package table

import (
	"slices"
	"strings"
	"time"
)

// lease is the table's own record of a Lease (Waiters stays empty in it).
type lease struct {
	Lease
	place place
	node  *node
	// delegation is not nil for a directory that is delegated: the lease is
	// in the tree only, and in no count.
	delegation *delegation
	// reclaimed: restored from the holder's claim after a restart, so a claim with a higher token
	// may still replace it.
	reclaimed bool
	// most bounds how long an explicit lease lasts, 0 for none, and carried is how much of that
	// its holder had used before.
	most, carried time.Duration
	// seen: claimed by its session during the running reclaim.
	seen bool
}

// count of leases of one holder, by mode.
type count struct{ read, write int }

// node is one path component. below counts, per holder, the leases strictly below the node, so
// that a tree request descends only where another holder is.
type node struct {
	parent   *node
	name     string
	children map[string]*node
	leases   []*lease
	below    map[string]count
}

// find returns the node at rel, or nil.
func (n *node) find(rel string) *node {
	for more := rel != ""; more && n != nil; {
		var c string
		c, rel, more = strings.Cut(rel, "/")
		n = n.children[c]
	}
	return n
}

// make returns the node at rel and creates it if necessary.
func (n *node) make(rel string) *node {
	for more := rel != ""; more; {
		var c string
		c, rel, more = strings.Cut(rel, "/")
		child := n.children[c]
		if child == nil {
			child = &node{parent: n, name: c}
			if n.children == nil {
				n.children = map[string]*node{}
			}
			n.children[c] = child
		}
		n = child
	}
	return n
}

// tally adds d leases of l's holder and mode to every ancestor.
func (l *lease) tally(d int) {
	for n := l.node.parent; n != nil; n = n.parent {
		c := n.below[l.Holder]
		if l.Mode == Write {
			c.write += d
		} else {
			c.read += d
		}
		if c == (count{}) {
			delete(n.below, l.Holder)
			continue
		}
		if n.below == nil {
			n.below = map[string]count{}
		}
		n.below[l.Holder] = c
	}
}

func (l *lease) attach(root *node) {
	l.node = root.make(l.place.rel)
	l.node.leases = append(l.node.leases, l)
	l.tally(1)
}

// detach removes the lease and every node that is empty without it.
func (l *lease) detach() {
	l.tally(-1)
	n := l.node
	n.leases = slices.DeleteFunc(n.leases, func(o *lease) bool { return o == l })
	for n.parent != nil && len(n.leases) == 0 && len(n.children) == 0 {
		delete(n.parent.children, n.name)
		n = n.parent
	}
}

func (l *lease) blocks(holder string, mode Mode) bool {
	return l.Holder != holder && conflicting(l.Mode, mode)
}

// othersBelow reports whether another holder has a conflicting lease below n.
func (n *node) othersBelow(holder string, mode Mode) bool {
	for h, c := range n.below {
		if h != holder && (c.write > 0 || mode == Write && c.read > 0) {
			return true
		}
	}
	return false
}

// conflicts calls fn with the leases of others that conflict with a key, in order of their depth
// and name, until fn returns false.
func (n *node) conflicts(p place, holder string, mode Mode, fn func(*lease) bool) {
	rel := p.rel
	for {
		last := rel == ""
		for _, l := range n.leases {
			if (last || l.place.tree) && l.blocks(holder, mode) && !fn(l) {
				return
			}
		}
		if last {
			break
		}
		var c string
		c, rel, _ = strings.Cut(rel, "/")
		if n = n.children[c]; n == nil {
			return
		}
	}
	if p.tree {
		n.visitBelow(holder, mode, fn)
	}
}

func (n *node) visitBelow(holder string, mode Mode, fn func(*lease) bool) bool {
	if !n.othersBelow(holder, mode) {
		return true
	}
	names := make([]string, 0, len(n.children))
	for name := range n.children {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		c := n.children[name]
		for _, l := range c.leases {
			if l.blocks(holder, mode) && !fn(l) {
				return false
			}
		}
		if !c.visitBelow(holder, mode, fn) {
			return false
		}
	}
	return true
}
