package fusefs

import (
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// key names an object of a backing file system. The birth time (nanoseconds, 0
// where the file system has none) tells a reused inode number from the old one.
type key struct {
	root     int
	dev, ino uint64
	btime    int64
	// own tells apart the names of an inode that is not the view's own: each
	// name is a node, because a change through one must not reach the others.
	own uint64
}

// same says whether two keys are of one object.
func (k key) same(o key) bool {
	k.own, o.own = 0, 0
	return k == o
}

func keyOf(root int, st *unix.Statx_t) key {
	k := key{root: root, dev: unix.Mkdev(st.Dev_major, st.Dev_minor), ino: st.Ino}
	if st.Mask&unix.STATX_BTIME != 0 {
		k.btime = st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
	}
	return k
}

// nameRef is one name of an object: a directory and a component in it.
type nameRef struct {
	parent *node
	name   string
}

// node is one inode the kernel knows. It holds no descriptor of its own.
type node struct {
	id   uint64
	key  key
	kind uint32 // S_IFMT bits; an inode never changes its type

	// Guarded by tree.mu.
	names    []nameRef // known names; a directory has at most one
	children map[string]*node
	lookups  uint64
	lastPath string     // where the last name was, once names is empty
	dead     *fuse.Attr // attributes after the last link went, else nil

	// foreign: the object must not be changed (see Shared). Only ever cleared,
	// or set when the object is replaced, with ns held for writing.
	foreign atomic.Bool
	merged  atomic.Bool // a directory in which names show from below

	io nodeIO
}

func (n *node) isDir() bool     { return n.kind == syscall.S_IFDIR }
func (n *node) isRegular() bool { return n.kind == syscall.S_IFREG }

// tree is the table of nodes and names.
type tree struct {
	mu   sync.RWMutex
	root *node
	next uint64
	byID map[uint64]*node
	byK  map[key]*node
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
	defer t.mu.RUnlock()
	return t.byID[id]
}

// at returns the object the kernel knows under a name, if any.
func (t *tree) at(parent *node, name string) *node {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return parent.children[name]
}

// ref returns the node of an object and counts one look-up of the kernel. With
// a parent, name becomes one of its names.
func (t *tree) ref(parent *node, name string, k key, mode uint32) *node {
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
		if n.isDir() {
			n.children = map[string]*node{}
		}
		n.foreign.Store(k.own != 0)
		t.byID[n.id], t.byK[k] = n, n
	}
	n.lookups++
	if parent != nil && n != t.root {
		t.addName(n, parent, name)
	}
	return n
}

func (t *tree) addName(n, parent *node, name string) {
	if old := parent.children[name]; old == n {
		return
	} else if old != nil {
		t.cutName(old, parent, name)
	}
	if n.isDir() {
		for len(n.names) > 0 {
			t.cutName(n, n.names[0].parent, n.names[0].name)
		}
	}
	n.names = append(n.names, nameRef{parent, name})
	parent.children[name] = n
}

// cutName removes one name; the node itself stays as long as the kernel
// remembers it.
func (t *tree) cutName(n, parent *node, name string) {
	for i, r := range n.names {
		if r.parent == parent && r.name == name {
			if len(n.names) == 1 {
				n.lastPath = t.join(parent, name)
			}
			n.names = append(n.names[:i:i], n.names[i+1:]...)
			break
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
	for len(n.names) > 0 {
		t.cutName(n, n.names[0].parent, n.names[0].name)
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
		n.dead = left
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
	if n != nil {
		t.move(n, op, on, np, nn)
	}
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
	retarget(a, nameRef{op, on}, nameRef{np, nn})
	retarget(b, nameRef{np, nn}, nameRef{op, on})
	t.reap(op)
	t.reap(np)
}

func (t *tree) move(n *node, op *node, on string, np *node, nn string) {
	retarget(n, nameRef{op, on}, nameRef{np, nn})
	delete(op.children, on)
	t.reap(op)
}

// retarget replaces one name of n by another; n may be nil (not looked up).
func retarget(n *node, from, to nameRef) {
	if n == nil {
		return
	}
	for i, r := range n.names {
		if r == from {
			n.names[i] = to
		}
	}
	to.parent.children[to.name] = n
}

// path is the path of a directory, or the first one of another object.
func (t *tree) path(n *node) string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.pathOf(n)
}

func (t *tree) pathOf(n *node) string {
	var parts []string
	size := 0
	for n != t.root {
		if len(n.names) == 0 {
			parts = append(parts, n.lastPath)
			size += len(n.lastPath) + 1
			break
		}
		parts = append(parts, n.names[0].name)
		size += len(n.names[0].name) + 1
		n = n.names[0].parent
	}
	if len(parts) == 0 {
		return ""
	}
	b := make([]byte, 0, size)
	for i := len(parts) - 1; i >= 0; i-- {
		if len(b) > 0 {
			b = append(b, '/')
		}
		b = append(b, parts[i]...)
	}
	return string(b)
}

func (t *tree) join(parent *node, name string) string {
	if p := t.pathOf(parent); p != "" {
		return p + "/" + name
	}
	return name
}

// child is the path of a name in a directory.
func (t *tree) child(parent *node, name string) string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.join(parent, name)
}

// paths are all known paths of an object, or where it last was.
func (t *tree) paths(n *node) []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if n == t.root {
		return []string{""}
	}
	if len(n.names) == 0 {
		return []string{n.lastPath}
	}
	out := make([]string, len(n.names))
	for i, r := range n.names {
		out[i] = t.join(r.parent, r.name)
	}
	return out
}

// refs is a copy of the known names.
func (t *tree) refs(n *node) []nameRef {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return append([]nameRef(nil), n.names...)
}

func (t *tree) deadAttr(n *node) *fuse.Attr {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return n.dead
}

func (t *tree) setLastPath(n *node, path string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n.lastPath = path
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
