package fusefs

import (
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// tree is the table of nodes and names.
type tree struct {
	mu   sync.RWMutex
	root *node
	next uint64
	byID map[uint64]*node
	byK  map[key]*node

	// edits counts changes of names that existed; moves those of directories,
	// by which the paths of everything below change too. While neither has
	// changed, what was computed from names still holds.
	edits, moves atomic.Uint64
}

func newTree(root key) *tree {
	r := &node{id: fuse.FUSE_ROOT_ID, key: root, kind: syscall.S_IFDIR, lookups: 1, children: map[string]*node{}}
	return &tree{
		root: r, next: fuse.FUSE_ROOT_ID + 1,
		byID: map[uint64]*node{r.id: r}, byK: map[key]*node{root: r},
	}
}

func (t *tree) get(id uint64) *node {
	t.mu.RLock()
	n := t.byID[id]
	t.mu.RUnlock()
	return n
}

// at returns the object the kernel knows under a name, if any.
func (t *tree) at(parent *node, name string) *node {
	t.mu.RLock()
	n := parent.children[name]
	t.mu.RUnlock()
	return n
}

// ref returns the node of an object and counts one look-up of the kernel. With
// a parent, name becomes one of its names, for which verdict holds.
func (t *tree) ref(parent *node, name string, k key, mode uint32, verdict uint64) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.byK[k]
	if k.own != 0 {
		if c := parent.children[name]; c != nil && c.key.same(k) {
			n = c
		} else {
			k.own = t.next
		}
	}
	if n != nil && n.kind != mode&syscall.S_IFMT {
		delete(t.byK, k) // the inode number was reused behind our back
		n = nil
	}
	if n == nil {
		n = &node{id: t.next, key: k, kind: mode & syscall.S_IFMT}
		t.next++
		n.copyUp.Store(k.own != 0)
		t.byID[n.id], t.byK[k] = n, n
	}
	n.lookups++
	if parent != nil && n != t.root {
		t.addName(n, parent, name)
		switch {
		case verdict == 0:
		case n.only(parent, name):
			n.verdict.Store(verdict)
		default: // shown is said of a name, the rest of the object
			n.verdict.Store(verdict &^ verdictShown)
		}
	}
	return n
}

func (t *tree) addName(n, parent *node, name string) {
	if old := parent.children[name]; old == n {
		return
	} else if old != nil {
		t.cutName(old, parent, name)
	}
	if n.isDir() && n.first.parent != nil {
		t.cutName(n, n.first.parent, n.first.name)
	}
	if n.first.parent != nil {
		t.edits.Add(1)
		n.verdict.Store(0)
	}
	n.addRef(nameRef{parent, name})
	if parent.children == nil {
		parent.children = map[string]*node{}
	}
	parent.children[name] = n
}

// edited records that names of n have changed. mu is held.
func (t *tree) edited(n *node) {
	n.verdict.Store(0)
	t.edits.Add(1)
	if n.isDir() {
		t.moves.Add(1)
	}
}

// cutName removes one name; the node itself stays as long as the kernel
// remembers it.
func (t *tree) cutName(n, parent *node, name string) {
	path := ""
	if n.only(parent, name) {
		path = t.join(parent, name)
	}
	if n.cutRef(nameRef{parent, name}) {
		t.edited(n)
		if n.first.parent == nil && (n.lookups > 0 || len(n.children) > 0) {
			n.gone = &gone{path: path}
		}
	}
	if parent.children[name] == n {
		delete(parent.children, name)
		t.reap(parent)
	}
}

// reap forgets a node nobody refers to any more, then its parents.
func (t *tree) reap(n *node) {
	if n == t.root || n.lookups > 0 || len(n.children) > 0 || t.byID[n.id] != n {
		return
	}
	delete(t.byID, n.id)
	if t.byK[n.key] == n {
		delete(t.byK, n.key)
	}
	for n.first.parent != nil {
		t.dropName(n, n.first)
	}
}

// dropName forgets a name nobody uses: nothing that was computed changes.
func (t *tree) dropName(n *node, r nameRef) {
	n.cutRef(r)
	if r.parent.children[r.name] == n {
		delete(r.parent.children, r.name)
		t.reap(r.parent)
	}
}

// forget takes back look-ups. It returns the node if that was the last one.
func (t *tree) forget(id, count uint64) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.byID[id]
	if n == nil || n == t.root {
		return nil
	}
	n.lookups -= min(n.lookups, count)
	if n.lookups > 0 {
		return nil
	}
	t.reap(n)
	return n
}

// unlinked records that name is gone. left holds the attributes if that was
// the object's last link.
func (t *tree) unlinked(parent *node, name string, left *fuse.Attr) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := parent.children[name]
	if n == nil {
		return nil
	}
	t.cutName(n, parent, name)
	if left != nil {
		if n.gone == nil { // a name that was never looked up may have been the last
			n.gone = &gone{path: t.join(parent, name)}
		}
		n.gone.attr = left
		if t.byK[n.key] == n {
			delete(t.byK, n.key)
		}
	}
	return n
}

// renamed moves a name after the target name has been cut by unlinked.
func (t *tree) renamed(op *node, on string, np *node, nn string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := op.children[on]
	if stale := np.children[nn]; stale != nil && stale != n {
		t.cutName(stale, np, nn)
	}
	if n == nil {
		return
	}
	t.retarget(n, nameRef{op, on}, nameRef{np, nn})
	delete(op.children, on)
	t.reap(op)
}

func (t *tree) exchanged(op *node, on string, np *node, nn string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a, b := op.children[on], np.children[nn]
	if a == b {
		return
	}
	delete(op.children, on)
	delete(np.children, nn)
	t.retarget(a, nameRef{op, on}, nameRef{np, nn})
	t.retarget(b, nameRef{np, nn}, nameRef{op, on})
	t.reap(op)
	t.reap(np)
}

// retarget replaces one name of n by another; n may be nil (not looked up).
func (t *tree) retarget(n *node, from, to nameRef) {
	if n == nil {
		return
	}
	if n.cutRef(from) {
		n.addRef(to)
	}
	t.edited(n)
	if to.parent.children == nil {
		to.parent.children = map[string]*node{}
	}
	to.parent.children[to.name] = n
}

// deadAttr are the attributes of an object that has no link any more.
func (t *tree) deadAttr(n *node) *fuse.Attr {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if n.gone == nil {
		return nil
	}
	return n.gone.attr
}

// nameless records where an object was made that has no name yet.
func (t *tree) nameless(n *node, path string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n.first.parent == nil {
		n.gone = &gone{path: path}
	}
}

// all is a copy of the table.
func (t *tree) all() []*node {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := make([]*node, 0, len(t.byID))
	for _, n := range t.byID {
		out = append(out, n)
	}
	return out
}
