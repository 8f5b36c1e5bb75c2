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
// where the file system has none) tells a reused inode number from the old one.
type Key struct {
	Ino   uint64
	btime int64
	Dev   uint32
	root  int32
	// Own tells apart the names of an inode that is not the view's own: each
	// name is a node, because a change through one must not reach the others.
	Own uint64
}

// Same says whether two keys are of one object.
func (k Key) Same(o Key) bool {
	k.Own, o.Own = 0, 0
	return k == o
}

// KeyOf is the key of an object of a root.
func KeyOf(root int, st *unix.Statx_t) Key {
	k := Key{root: int32(root), Dev: backing.Dev(st), Ino: st.Ino}
	if st.Mask&unix.STATX_BTIME != 0 {
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
	ID   uint64
	Key  Key
	Kind uint32 // S_IFMT bits; an inode never changes its type

	// Keep is how long the kernel may keep the object: a Keep, computed from
	// its name when it got it.
	Keep atomic.Uint32

	// Verdict is what the guard said of the object, with the generation it said it
	// in; 0 if nothing.
	Verdict atomic.Uint64

	// Guarded by Table.mu.
	first    Name    // a known name; no parent means none
	more     *[]Name // the other names of a hard link, never empty
	children map[string]*Node
	lookups  uint64
	gone     *gone // what is left when the last known name is gone, else nil

	// CopyUp: the object must not be changed (see Shared). Only ever cleared,
	// or set when the object is replaced, with the name lock held for writing.
	CopyUp atomic.Bool
	Merged atomic.Bool // a directory in which names show from below

	path atomic.Pointer[pathAt] // of a directory, as computed last

	Files openfile.Inode
}

// gone is what is known of an object without a name.
type gone struct {
	path string     // where the last name was
	attr *fuse.Attr // attributes after the last link went, else nil
}

// IsDir and IsRegular tell the type of the object.
func (n *Node) IsDir() bool     { return n.Kind == syscall.S_IFDIR }
func (n *Node) IsRegular() bool { return n.Kind == syscall.S_IFREG }

// Root is the backing root the object is in.
func (n *Node) Root() int { return int(n.Key.root) }

// Is tells whether st describes this object.
func (n *Node) Is(st *unix.Statx_t) bool { return KeyOf(n.Root(), st).Same(n.Key) }

// eachName calls f with every known name. Table.mu is held.
func (n *Node) eachName(f func(Name)) {
	if n.first.Parent == nil {
		return
	}
	f(n.first)
	if n.more != nil {
		for _, r := range *n.more {
			f(r)
		}
	}
}

// only says whether the object has one known name, this one. Table.mu is held.
func (n *Node) only(parent *Node, name string) bool {
	return n.more == nil && n.first.Parent == parent && n.first.Name == name
}

// addRef and cutRef change the known names. Table.mu is held.
func (n *Node) addRef(r Name) {
	switch {
	case n.first.Parent == nil:
		n.first, n.gone = r, nil
	case n.more == nil:
		n.more = &[]Name{r}
	default:
		*n.more = append(*n.more, r)
	}
}

func (n *Node) cutRef(r Name) bool {
	if n.more != nil {
		rest := *n.more
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
		if rest = rest[:len(rest)-1]; len(rest) == 0 {
			n.more = nil
		} else {
			*n.more = rest
		}
		return true
	}
	if n.first != r {
		return false
	}
	n.first = Name{}
	return true
}
