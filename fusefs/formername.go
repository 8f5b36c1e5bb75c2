package fusefs

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"polis/fusefs/apart"
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
	// useAfter is how long after a removal other names are used, for others that follow.
	useAfter = time.Millisecond
	// useMost bounds the names of a file that are used, until the kernel has asked.
	useMost = 3
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

// useSoon uses another name of a file that lost one, soon.
func (fs *FS) useSoon(one *inode.Former) {
	if len(fs.cfg.Above) > 0 && fs.formers.Wait(one) {
		fs.watchers.Go(fs.useNames)
	}
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

// meant returns which of the files that had a name each path of a call means, nil for what has the name now. Where the
// kernel does not repeat a call (filename_create in fs/namei.c), the first answer must be right.
func (fs *FS) meant(h *fuse.InHeader, name string, paths []string, all []*inode.Former) (known []*inode.Former) {
	parent := fs.tree.Get(h.NodeId)
	var here []string
	if _, named := fs.tree.Nth(parent, 0); named || parent == fs.tree.Root { // else its path can be another directory's
		here = append(here, fs.tree.Child(parent, name))
	}
	if n := fs.tree.At(parent, name); n != nil {
		here = append(here, fs.tree.SomePaths(n, inode.FewNames)...)
	}
	for _, path := range paths {
		for _, at := range fs.cfg.Above {
			rel, below := strings.CutPrefix(path, at+"/")
			if !below {
				continue
			}
			if slices.Contains(here, rel) {
				known = append(known, nil)
				break
			}
			i := slices.IndexFunc(all, func(one *inode.Former) bool { return slices.Contains(fs.tree.SomePaths(one.Node, inode.FewNames), rel) })
			if i >= 0 {
				known = append(known, all[i])
			}
			break
		}
	}
	return known
}

// useNames uses names, in the overlay, of the files that lost one.
func (fs *FS) useNames() {
	for {
		select {
		case <-fs.dying:
		case <-fs.server.Dead():
		case <-time.After(useAfter):
		}
		all := fs.formers.Take()
		if len(all) == 0 {
			return
		}
		for i, one := range all {
			if i == 0 || one.Dir() != all[i-1].Dir() {
				// What removed the name has the directory locked until the kernel has forgotten the name. The
				// notification of a name that is none waits for that.
				_ = fs.server.EntryNotify(one.Dir(), ".")
			}
		}
		err := apart.Do(context.Background(), func() error { // it ends with the connection at the latest
			root, err := unix.Open(fs.cfg.Above[0], unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			if err != nil {
				return nil //nolint:nilerr // it is not mounted: nobody uses a name
			}
			defer backing.Close(root)
			for _, one := range all {
				fs.useName(root, one)
			}
			return nil
		})
		if err != nil {
			fs.log.Warn("names of files are not revalidated", slog.String("op", "revalidate"), slog.Any("err", err))
		}
	}
}

// useName uses names of a file until the kernel has asked for the one that it lost. If it does not ask, it never will.
func (fs *FS) useName(root int, one *inode.Former) {
	used := false
	for _, path := range fs.tree.SomePaths(one.Node, useMost) {
		if !fs.formers.Expect(uint32(unix.Gettid()), one, fs.timeout) {
			break
		}
		how := unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: backing.ResolveFlags}
		if fd, err := unix.Openat2(root, path, &how); err == nil {
			backing.Close(fd)
			used = true
		}
	}
	fs.formers.Expected(one, used)
}
