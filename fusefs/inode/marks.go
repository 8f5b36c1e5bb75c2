package inode

// What a node is marked with: how long the kernel may keep it, and three marks of the overlay.
const (
	keepBits     = 1<<16 - 1
	markCopyUp   = 1 << 16
	markMerged   = 1 << 17
	markDetached = 1 << 18
)

// Keep is how long the kernel may keep the object: a fusefs.Keep, computed from its
// name when it got it.
func (n *Node) Keep() uint32 { return n.marks.Load() & keepBits }

// SetKeep changes that, and returns what it was.
func (n *Node) SetKeep(keep uint32) (before uint32) {
	for {
		was := n.marks.Load()
		now := was&^keepBits | keep&keepBits
		if was == now || n.marks.CompareAndSwap(was, now) {
			return was & keepBits
		}
	}
}

// CopyUp reports whether the object must not be changed (see overlay.Shared). It is only
// ever cleared, or set when the object is replaced, with the name lock held for writing.
func (n *Node) CopyUp() bool { return n.marks.Load()&markCopyUp != 0 }

func (n *Node) setCopyUp(on bool) {
	if on {
		n.marks.Or(markCopyUp)
	} else {
		n.marks.And(^uint32(markCopyUp))
	}
}

// Merged is for a directory in which names show from below.
func (n *Node) Merged() bool { return n.marks.Load()&markMerged != 0 }

// SetMerged marks it. The mark stays.
func (n *Node) SetMerged() {
	if !n.Merged() {
		n.marks.Or(markMerged)
	}
}

// Detached reports whether a copy without a name stands for the object, which has none any more.
func (n *Node) Detached() bool { return n.marks.Load()&markDetached != 0 }

// Detach marks it. The copy may be changed. The name lock is held for writing.
func (n *Node) Detach() {
	n.marks.Or(markDetached)
	n.setCopyUp(false)
}
