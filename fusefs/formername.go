package fusefs

import (
	"slices"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
	"polis/fusefs/inode"
)

// An overlay keeps, for each file, the name of the upper layer by which it has found the file first. Whenever a
// program uses another name of the file, the kernel revalidates that one: it asks the view whether the name still is
// that file (ovl_dentry_revalidate_common in fs/overlayfs/super.c), also when the name has been removed. If the answer
// is no, the call fails with ESTALE, for as long as the kernel knows the file.
//
// So the view remembers the names that files with other names have had (inode.Formers), and answers such a question.
// It has the form of a look-up, and the name may be another file's by now. The overlay looks names up with its
// mounter's credentials (AsOverlay), except right before it makes something; it revalidates with the caller's. The
// first answer to a caller is what is there. If the caller revalidates, the kernel then repeats the call, once, and
// the same thread asks again: now the answer is the file that had the name. The kernel keeps nothing of an answer that
// can be wrong.
//
// So that programs need not ask twice, the view itself uses another name of the file soon after one was removed. That
// question is known to be about this file, and the kernel may keep the answer: it asks for that name no more.

const (
	// AboveGID is the group of the mounter of an overlay above a view, for the file system only. No user has it.
	AboveGID = 0x706f6c69
	// namelessName is the name that a file that was made without a name has in the kernel.
	namelessName = "/"
)

// AsOverlay calls mount, which mounts an overlay whose upper layer is a view with Config.Work: the requests of the
// overlay differ from then on from those of its callers.
func AsOverlay(mount func() error) error { return backing.CurrentIdentity().WithGroup(AboveGID, mount) }

// lostName records that a name of n was removed or replaced, while n has others.
func (fs *FS) lostName(parent *inode.Node, name string, n *inode.Node) {
	// A whiteout is no file. Each name of what is not the view's own is an inode.
	if !fs.upper() || n.IsDir() || n.Kind() == unix.S_IFCHR || n.CopyUp() {
		return
	}
	fs.useSoon(fs.formers.Add(parent.ID, name, n, false))
}

// question is what is known of a look-up of a name that a file had.
type question struct {
	asked bool
	call  string
	paths []string
}

// asksFormer returns what the thread does that looks a name up. No lock is held.
func (fs *FS) asksFormer(req request, h *fuse.InHeader, name string) (q question) {
	if !fs.formers.Any() || req.Above() || !fs.formers.Has(h.NodeId, name) {
		return q
	}
	q.asked = true
	q.call, q.paths = fs.calls.of(fs, h.Pid)
	return q
}

// formerly answers a look-up by a caller of the overlay, if it asks for a file that had the name. The name lock is
// held.
func (fs *FS) formerly(q question, h *fuse.InHeader, name string, out *fuse.EntryOut) bool {
	if !q.asked {
		return false
	}
	one, sure := fs.formers.Asked(h.Pid, h.NodeId, name, q.call, func(all []*inode.Former) []*inode.Former { return fs.meant(h, name, q.paths, all) })
	if one == nil || fs.tree.Get(one.Node.ID) != one.Node {
		return false
	}
	n := one.Node
	st, e := fs.layers.Stat(n)
	if e != 0 || !slices.ContainsFunc(fs.tree.SomePaths(n, inode.FewNames), func(p string) bool { return fs.guard.Visible(p, false) }) {
		return false
	}
	fs.tree.Again(n)
	*out = fuse.EntryOut{NodeId: n.ID, Generation: 1}
	fs.attr(fs.layers.MergedTimes(n, &st), &out.Attr)
	out.SetAttrTimeout(fs.freshTTL(n, &st))
	if sure {
		out.SetEntryTimeout(fs.timeout)
		fs.formers.Kept(one)
	} else {
		fs.useSoon(one)
	}
	return true
}
