package inode

import (
	"hash/maphash"
	"math/rand/v2"
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
	// Work is the work directory of an overlay; nil if there is none. It never changes.
	Work *Node

	mu   sync.RWMutex
	next uint64
	byID idTable
	byK  keyTable // those whose Key is not Own
	seed maphash.Seed

	// edits counts changes of names that existed; moves those of directories,
	// by which the paths of everything below change too. While neither has
	// changed, what was computed from names still holds.
	edits, moves atomic.Uint64

	size atomic.Int64 // of byID
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
	r := &Node{ID: fuse.FUSE_ROOT_ID, Key: root, kind: syscall.S_IFDIR, lookups: 1, rare: &rare{}}
	return newTable(r)
}

func newTable(r *Node) *Table {
	t := &Table{Root: r, next: r.ID + 1, seed: maphash.MakeSeed()}
	t.byK.secret = rand.Uint64()
	t.byID.add(r)
	t.byK.add(r)
	return t
}

// UpperID is the number of the root directory in a table that NewUpper makes.
const UpperID = fuse.FUSE_ROOT_ID + 1

// WorkName is the name of the work directory in the root directory. No file has a name with a
// slash, so no path of a file begins with it.
const WorkName = "/work"

// NewUpper makes a table whose root directory is not the root of the mount: the kernel gets it, and
// the work directory beside it, by a look-up. Both stay known.
func NewUpper(root, work Key) *Table {
	t := newTable(&Node{ID: UpperID, Key: root, kind: syscall.S_IFDIR, lookups: 1, rare: &rare{}})
	t.Work = &Node{ID: t.next, Key: work, kind: syscall.S_IFDIR, lookups: 1, rare: &rare{}}
	t.next++
	t.byID.add(t.Work)
	t.byK.add(t.Work)
	t.addName(t.Work, t.Root, WorkName)
	t.size.Store(int64(t.byID.n))
	return t
}

// Get returns the inode of a number, or nil.
func (t *Table) Get(id uint64) *Node {
	t.mu.RLock()
	n := t.byID.get(id)
	t.mu.RUnlock()
	return n
}

// At returns the object the kernel knows under a name, if any.
func (t *Table) At(parent *Node, name string) *Node {
	t.mu.RLock()
	n := t.child(parent, name)
	t.mu.RUnlock()
	return n
}

// Ref returns the node of an object and counts one look-up of the kernel. With
// a parent, name becomes one of its names, for which verdict holds.
func (t *Table) Ref(parent *Node, name string, k Key, mode uint32, verdict uint64) *Node {
	t.mu.Lock()
	defer t.mu.Unlock()
	var n *Node
	if !k.Own {
		n = t.byK.get(k)
	} else if c := t.child(parent, name); c != nil && c.Key.Same(k) {
		n = c
	}
	kind := uint16(mode & syscall.S_IFMT)
	if n != nil && n.kind != kind {
		t.byK.cut(n) // the inode number was reused behind our back
		n = nil
	}
	if n == nil {
		n = &Node{ID: t.next, Key: k, kind: kind}
		t.next++
		n.setCopyUp(k.Own)
		if n.IsDir() {
			n.rare = &rare{}
		}
		t.byID.add(n)
		t.byK.add(n)
		t.size.Store(int64(t.byID.n))
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
	if old := t.child(parent, name); old == n {
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
	t.setChild(parent, name, n)
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
	known := t.child(parent, name) == n
	if known {
		t.cutChild(parent, name, n)
	}
	if n.cutRef(Name{parent, name}) {
		t.edited(n)
		if n.first.Parent == nil && (n.lookups > 0 || n.hasChildren()) {
			n.setGone(&gone{path: path})
		}
	}
	if known {
		t.reap(parent)
	}
}

// reap forgets a node nobody refers to any more, then its parents.
func (t *Table) reap(n *Node) {
	if n == t.Root || n.lookups > 0 || n.hasChildren() || t.byID.get(n.ID) != n {
		return
	}
	t.byID.cut(n)
	t.size.Store(int64(t.byID.n))
	t.byK.cut(n)
	for n.first.Parent != nil {
		t.dropName(n, n.first)
	}
}

// dropName forgets a name nobody uses: nothing that was computed changes.
func (t *Table) dropName(n *Node, r Name) {
	known := t.child(r.Parent, r.Name) == n
	if known {
		t.cutChild(r.Parent, r.Name, n)
	}
	n.cutRef(r)
	if known {
		t.reap(r.Parent)
	}
}

// Forget subtracts look-ups. It returns the node if that was the last one.
func (t *Table) Forget(id, count uint64) *Node {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.byID.get(id)
	if n == nil || n == t.Root || n == t.Work {
		return nil
	}
	n.lookups -= min(n.lookups, count)
	if n.lookups > 0 {
		return nil
	}
	t.reap(n)
	return n
}

// Unlinked records that name is gone. left holds the attributes if that was
// the object's last link.
func (t *Table) Unlinked(parent *Node, name string, left *fuse.Attr) *Node {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.child(parent, name)
	if n == nil {
		return nil
	}
	t.cutName(n, parent, name)
	if left != nil {
		if n.left() == nil { // a name that was never looked up may have been the last
			n.setGone(&gone{path: t.join(parent, name)})
		}
		n.rare.gone.attr = left
		t.byK.cut(n)
	}
	return n
}

// Renamed moves a name after the target name has been cut by unlinked.
func (t *Table) Renamed(op *Node, on string, np *Node, nn string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.child(op, on)
	if stale := t.child(np, nn); stale != nil && stale != n {
		t.cutName(stale, np, nn)
	}
	if n == nil {
		return
	}
	t.cutChild(op, on, n)
	t.retarget(n, Name{op, on}, Name{np, nn})
	t.reap(op)
}

// Exchanged gives each of two names to the object of the other.
func (t *Table) Exchanged(op *Node, on string, np *Node, nn string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a, b := t.child(op, on), t.child(np, nn)
	if a == b {
		return
	}
	if a != nil {
		t.cutChild(op, on, a)
	}
	if b != nil {
		t.cutChild(np, nn, b)
	}
	t.retarget(a, Name{op, on}, Name{np, nn})
	t.retarget(b, Name{np, nn}, Name{op, on})
	t.reap(op)
	t.reap(np)
}

// retarget replaces one name of n, which is no child any more, by another; n may be nil (not
// looked up).
func (t *Table) retarget(n *Node, from, to Name) {
	if n == nil {
		return
	}
	if n.cutRef(from) {
		n.addRef(to)
	}
	t.edited(n)
	if t.child(to.Parent, to.Name) != n { // else it was a name of n's before
		t.setChild(to.Parent, to.Name, n)
	}
}
