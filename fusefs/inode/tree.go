package inode

import (
	"maps"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// Table is the table of nodes and names.
type Table struct {
	// Names is the name lock: it orders the use of names (read side) against their change
	// (rename, unlink: write side). Never taken recursively, never held while the guard is
	// called.
	Names sync.RWMutex

	Root *Node // never changes

	mu   sync.RWMutex
	next uint64
	byID map[uint64]*Node
	byK  map[Key]*Node

	// edits counts changes of names that existed; moves those of directories,
	// by which the paths of everything below change too. While neither has
	// changed, what was computed from names still holds.
	edits, moves atomic.Uint64

	size atomic.Int64 // of byID
	peak int          // most nodes since the maps were made
}

// Len is the number of inodes that the kernel knows.
func (t *Table) Len() int { return int(t.size.Load()) }

// Edits changes whenever a name that existed has changed.
func (t *Table) Edits() uint64 { return t.edits.Load() }

// VerdictGeneration is the generation of verdicts given under the rules of a guard's
// generation: it grows with those, and when the paths of objects below a moved
// directory have changed. It has no bit in common with what a verdict says.
func (t *Table) VerdictGeneration(rules uint64) uint64 {
	return (rules + t.moves.Load() + 1) << GenerationShift
}

// New makes a table that knows the root directory only.
func New(root Key) *Table {
	r := &Node{ID: fuse.FUSE_ROOT_ID, Key: root, Kind: syscall.S_IFDIR, lookups: 1, children: map[string]*Node{}}
	return &Table{
		Root: r, next: fuse.FUSE_ROOT_ID + 1,
		byID: map[uint64]*Node{r.ID: r}, byK: map[Key]*Node{root: r}, peak: 1,
	}
}

// Get returns the inode of a number, or nil.
func (t *Table) Get(id uint64) *Node {
	t.mu.RLock()
	n := t.byID[id]
	t.mu.RUnlock()
	return n
}

// At returns the object the kernel knows under a name, if any.
func (t *Table) At(parent *Node, name string) *Node {
	t.mu.RLock()
	n := parent.children[name]
	t.mu.RUnlock()
	return n
}

// Ref returns the node of an object and counts one look-up of the kernel. With
// a parent, name becomes one of its names, for which verdict holds.
func (t *Table) Ref(parent *Node, name string, k Key, mode uint32, verdict uint64) *Node {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.byK[k]
	if k.Own != 0 {
		if c := parent.children[name]; c != nil && c.Key.Same(k) {
			n = c
		} else {
			k.Own = t.next
		}
	}
	if n != nil && n.Kind != mode&syscall.S_IFMT {
		delete(t.byK, k) // the inode number was reused behind our back
		n = nil
	}
	if n == nil {
		n = &Node{ID: t.next, Key: k, Kind: mode & syscall.S_IFMT}
		t.next++
		n.CopyUp.Store(k.Own != 0)
		t.byID[n.ID], t.byK[k] = n, n
		t.size.Store(int64(len(t.byID)))
		t.peak = max(t.peak, len(t.byID))
	}
	n.lookups++
	if parent != nil && n != t.Root {
		t.addName(n, parent, name)
		switch {
		case verdict == 0:
		case n.only(parent, name):
			n.Verdict.Store(verdict)
		default: // shown belongs to a name, the rest to the object
			n.Verdict.Store(verdict &^ VerdictShown)
		}
	}
	return n
}

func (t *Table) addName(n, parent *Node, name string) {
	if old := parent.children[name]; old == n {
		return
	} else if old != nil {
		t.cutName(old, parent, name)
	}
	if n.IsDir() && n.first.Parent != nil {
		t.cutName(n, n.first.Parent, n.first.Name)
	}
	if n.first.Parent != nil {
		t.edits.Add(1)
		n.Verdict.Store(0)
	}
	n.addRef(Name{parent, name})
	if parent.children == nil {
		parent.children = map[string]*Node{}
	}
	parent.children[name] = n
}

// edited records that names of n have changed. mu is held.
func (t *Table) edited(n *Node) {
	n.Verdict.Store(0)
	t.edits.Add(1)
	if n.IsDir() {
		t.moves.Add(1)
	}
}

// cutName removes one name; the node itself stays as long as the kernel
// remembers it.
func (t *Table) cutName(n, parent *Node, name string) {
	path := ""
	if n.only(parent, name) {
		path = t.join(parent, name)
	}
	if n.cutRef(Name{parent, name}) {
		t.edited(n)
		if n.first.Parent == nil && (n.lookups > 0 || len(n.children) > 0) {
			n.gone = &gone{path: path}
		}
	}
	if parent.children[name] == n {
		delete(parent.children, name)
		t.reap(parent)
	}
}

// reap forgets a node nobody refers to any more, then its parents.
func (t *Table) reap(n *Node) {
	if n == t.Root || n.lookups > 0 || len(n.children) > 0 || t.byID[n.ID] != n {
		return
	}
	delete(t.byID, n.ID)
	t.size.Store(int64(len(t.byID)))
	if t.byK[n.Key] == n {
		delete(t.byK, n.Key)
	}
	for n.first.Parent != nil {
		t.dropName(n, n.first)
	}
}

// dropName forgets a name nobody uses: nothing that was computed changes.
func (t *Table) dropName(n *Node, r Name) {
	n.cutRef(r)
	if r.Parent.children[r.Name] == n {
		if delete(r.Parent.children, r.Name); len(r.Parent.children) == 0 {
			r.Parent.children = nil // it may have had room for many
		}
		t.reap(r.Parent)
	}
}

// Forget takes back look-ups. It returns the node if that was the last one.
func (t *Table) Forget(id, count uint64) *Node {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.byID[id]
	if n == nil || n == t.Root {
		return nil
	}
	n.lookups -= min(n.lookups, count)
	if n.lookups > 0 {
		return nil
	}
	t.reap(n)
	t.shrink()
	return n
}

// shrinkAbove is the size from which a map is worth being made anew, in elements.
const shrinkAbove = 4096

// shrink makes the maps anew when most of what they had room for is gone: a map of Go's
// keeps its memory. mu is held.
func (t *Table) shrink() {
	if t.peak < shrinkAbove || len(t.byID)*8 > t.peak {
		return
	}
	t.peak = len(t.byID)
	t.byID, t.byK = renewed(t.byID), renewed(t.byK)
}

func renewed[K comparable, V any](m map[K]V) map[K]V {
	out := make(map[K]V, len(m))
	maps.Copy(out, m)
	return out
}

// Unlinked records that name is gone. left holds the attributes if that was
// the object's last link.
func (t *Table) Unlinked(parent *Node, name string, left *fuse.Attr) *Node {
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
		if t.byK[n.Key] == n {
			delete(t.byK, n.Key)
		}
	}
	return n
}

// Renamed moves a name after the target name has been cut by unlinked.
func (t *Table) Renamed(op *Node, on string, np *Node, nn string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := op.children[on]
	if stale := np.children[nn]; stale != nil && stale != n {
		t.cutName(stale, np, nn)
	}
	if n == nil {
		return
	}
	t.retarget(n, Name{op, on}, Name{np, nn})
	delete(op.children, on)
	t.reap(op)
}

// Exchanged gives each of two names to the object of the other.
func (t *Table) Exchanged(op *Node, on string, np *Node, nn string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a, b := op.children[on], np.children[nn]
	if a == b {
		return
	}
	delete(op.children, on)
	delete(np.children, nn)
	t.retarget(a, Name{op, on}, Name{np, nn})
	t.retarget(b, Name{np, nn}, Name{op, on})
	t.reap(op)
	t.reap(np)
}

// retarget replaces one name of n by another; n may be nil (not looked up).
func (t *Table) retarget(n *Node, from, to Name) {
	if n == nil {
		return
	}
	if n.cutRef(from) {
		n.addRef(to)
	}
	t.edited(n)
	if to.Parent.children == nil {
		to.Parent.children = map[string]*Node{}
	}
	to.Parent.children[to.Name] = n
}

// DeadAttr are the attributes of an object that has no link any more.
func (t *Table) DeadAttr(n *Node) *fuse.Attr {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if n.gone == nil {
		return nil
	}
	return n.gone.attr
}

// SetNameless records where an object was made that has no name yet.
func (t *Table) SetNameless(n *Node, path string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n.first.Parent == nil {
		n.gone = &gone{path: path}
	}
}

// All is a copy of the table.
func (t *Table) All() []*Node {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := make([]*Node, 0, len(t.byID))
	for _, n := range t.byID {
		out = append(out, n)
	}
	return out
}
