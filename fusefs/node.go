package fusefs

import (
	"sync/atomic"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
	"polis/fusefs/openfile"
)

// key names an object of a backing file system. The birth time (nanoseconds, 0
// where the file system has none) tells a reused inode number from the old one.
type key struct {
	ino   uint64
	btime int64
	dev   uint32
	root  int32
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
	k := key{root: int32(root), dev: backing.Dev(st), ino: st.Ino}
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

// node is one inode the kernel knows. It holds no descriptor of its own, and
// there may be hundreds of thousands: what few of them need is behind a pointer.
type node struct {
	id   uint64
	key  key
	kind uint32 // S_IFMT bits; an inode never changes its type

	// keep is how long the kernel may keep the object: a Keep, computed from
	// its name when it got it.
	keep atomic.Uint32

	// verdict is what the guard said of the object, with the generation it said it
	// in; 0 if nothing. See standing.go.
	verdict atomic.Uint64

	// Guarded by tree.mu.
	first    nameRef    // a known name; no parent means none
	more     *[]nameRef // the other names of a hard link, never empty
	children map[string]*node
	lookups  uint64
	gone     *gone // what is left when the last known name is gone, else nil

	// copyUp: the object must not be changed (see Shared). Only ever cleared,
	// or set when the object is replaced, with ns held for writing.
	copyUp atomic.Bool
	merged atomic.Bool // a directory in which names show from below

	path atomic.Pointer[pathAt] // of a directory, as computed last

	io openfile.Inode
}

// gone is what is known of an object without a name.
type gone struct {
	path string     // where the last name was
	attr *fuse.Attr // attributes after the last link went, else nil
}

func (n *node) isDir() bool     { return n.kind == syscall.S_IFDIR }
func (n *node) isRegular() bool { return n.kind == syscall.S_IFREG }

// root is the backing root the object is in.
func (n *node) root() int { return int(n.key.root) }

// is tells whether st describes this object.
func (n *node) is(st *unix.Statx_t) bool { return keyOf(n.root(), st).same(n.key) }

// eachName calls f with every known name. tree.mu is held.
func (n *node) eachName(f func(nameRef)) {
	if n.first.parent == nil {
		return
	}
	f(n.first)
	if n.more != nil {
		for _, r := range *n.more {
			f(r)
		}
	}
}

// only says whether the object has one known name, this one. tree.mu is held.
func (n *node) only(parent *node, name string) bool {
	return n.more == nil && n.first.parent == parent && n.first.name == name
}

// addRef and cutRef change the known names. tree.mu is held.
func (n *node) addRef(r nameRef) {
	switch {
	case n.first.parent == nil:
		n.first, n.gone = r, nil
	case n.more == nil:
		n.more = &[]nameRef{r}
	default:
		*n.more = append(*n.more, r)
	}
}

func (n *node) cutRef(r nameRef) bool {
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
		rest[len(rest)-1] = nameRef{}
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
	n.first = nameRef{}
	return true
}
