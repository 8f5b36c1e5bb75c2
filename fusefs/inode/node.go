package inode

import (
	"sync/atomic"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
	"polis/fusefs/openfile"
)

// Key names an object of a backing file system. The birth time (nanoseconds, 0
// where the file system has none that lasts) distinguishes a reused inode number from the old one.
type Key struct {
	Ino   uint64
	btime int64
	Dev   uint32
	root  int16
	// Own is for an inode that is not the view's own: each of its names is a node,
	// because a change through one must not reach the others.
	Own bool
}

// Same reports whether two keys are of one object.
func (k Key) Same(o Key) bool {
	k.Own, o.Own = false, false
	return k == o
}

// Undated are the roots whose objects get another time of birth without becoming others: on
// overlayfs the first change of an object, and of what is in a directory, makes a copy that keeps the
// inode number only. A lower layer never reuses a number: its files stay. A number of the upper layer
// that others than the view's programs freed can be reused, as on a file system without times of birth;
// then size and times differ, by which the kernel drops the pages it has.
type Undated []bool

// KeyOf is the key of an object of a root.
func (u Undated) KeyOf(root int, st *unix.Statx_t) Key {
	k := Key{root: int16(root), Dev: backing.Dev(st), Ino: st.Ino}
	if st.Mask&unix.STATX_BTIME != 0 && (root >= len(u) || !u[root]) {
		k.btime = st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
	}
	return k
}

// Name is one name of an object: a directory and a component in it.
type Name struct {
	Parent *Node
	Name   string
}

// A verdict is the answer of a guard, and above it the generation in which it was given.
const (
	// VerdictShown is the part of the verdict on a name; the rest is on the object.
	VerdictShown = 1
	// GenerationShift is where the generation begins.
	GenerationShift = 8
)

// Node is one inode the kernel knows. It holds no descriptor of its own, and
// there may be hundreds of thousands: what few of them need is behind a pointer.
type Node struct {
	ID  uint64
	Key Key

	// Verdict is what the guard said of the object, with the generation it said it
	// in; 0 if nothing.
	Verdict atomic.Uint64

	// Guarded by Table.mu.
	first   Name // a known name; no parent means none
	lookups uint64
	rare    *rare

	Files openfile.Inode

	marks atomic.Uint32 // see marks.go
	kind  uint16        // S_IFMT bits; an inode never changes its type
}

// rare is what few nodes need. A directory always has it; others get it when they do.
type rare struct {
	names    []Name // the other names of a hard link
	children children
	gone     *gone                  // what is left when the last known name is gone, else nil
	path     atomic.Pointer[pathAt] // of a directory, as computed last
}

func (n *Node) more() *rare {
	if n.rare == nil {
		n.rare = &rare{}
	}
	return n.rare
}

// others are the known names but the first.
func (n *Node) others() []Name {
	if n.rare == nil {
		return nil
	}
	return n.rare.names
}

func (n *Node) setGone(g *gone) {
	if g != nil || n.rare != nil {
		n.more().gone = g
	}
}

// left is what is left of an object without a known name, or nil.
func (n *Node) left() *gone {
	if n.rare == nil {
		return nil
	}
	return n.rare.gone
}

// gone is what is known of an object without a name.
type gone struct {
	path string     // where the last name was
	attr *fuse.Attr // attributes after the last link went, else nil
}

// Kind is the type of the object, S_IFMT bits.
func (n *Node) Kind() uint32 { return uint32(n.kind) }

// IsDir and IsRegular report the type of the object.
func (n *Node) IsDir() bool     { return n.kind == syscall.S_IFDIR }
func (n *Node) IsRegular() bool { return n.kind == syscall.S_IFREG }

// Root is the backing root the object is in.
func (n *Node) Root() int { return int(n.Key.root) }

// Is reports whether st describes this object.
func (n *Node) Is(st *unix.Statx_t) bool {
	k := Undated(nil).KeyOf(n.Root(), st)
	if n.Key.btime == 0 {
		k.btime = 0
	}
	return k.Same(n.Key)
}

// eachName calls f with every known name. Table.mu is held.
func (n *Node) eachName(f func(Name)) {
	if n.first.Parent == nil {
		return
	}
	f(n.first)
	for _, r := range n.others() {
		f(r)
	}
}

// only reports whether the object has one known name, this one. Table.mu is held.
func (n *Node) only(parent *Node, name string) bool {
	return len(n.others()) == 0 && n.first.Parent == parent && n.first.Name == name
}

// addRef and cutRef change the known names. Table.mu is held.
func (n *Node) addRef(r Name) {
	if n.first.Parent == nil {
		n.first = r
		n.setGone(nil)
		return
	}
	m := n.more()
	m.names = append(m.names, r)
}

func (n *Node) cutRef(r Name) bool {
	rest := n.others()
	if len(rest) == 0 {
		if n.first != r {
			return false
		}
		n.first = Name{}
		return true
	}
	at := -1
	for i := range rest {
		if rest[i] == r {
			at = i
		}
	}
	switch {
	case n.first == r:
		at = len(rest) - 1
		n.first = rest[at]
	case at < 0:
		return false
	}
	rest[at] = rest[len(rest)-1]
	rest[len(rest)-1] = Name{}
	if n.rare.names = rest[:len(rest)-1]; len(rest) == 1 {
		n.rare.names = nil
	}
	return true
}
