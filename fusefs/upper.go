package fusefs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
	"polis/fusefs/inode"
	"polis/fusefs/overlay"
)

// A view with Config.Work is the upper layer of an overlay (overlayfs, in
// Documentation/filesystems of the kernel), and nobody but the overlay reaches it: the mount is in a
// directory that only its mounter can search (Mount checks that), because the kernel checks no modes
// in it. Every request then comes from the overlay, with the credentials of its mounter and the process id of the
// caller. The overlay checks the caller's rights.
//
// The overlay makes what it needs in the work directory and moves it to its place. What such a move
// means (a whiteout on a name removes the name) is the guard's to know: it gets the paths of the
// work directory with the prefix WorkPrefix, and Target.Whiteout.

// The names in the root directory of a view with Config.Work.
const (
	UpperName = "upper"
	WorkName  = "work"
	// WorkPrefix begins the path of everything in the work directory, and of nothing else.
	WorkPrefix = inode.WorkName
)

// overlayXattrs is the prefix of the attributes in which an overlay keeps what it knows of a
// directory or a copy: opaque, redirect, origin.
const overlayXattrs = "trusted.overlay."

// upper reports whether the view is the upper layer of an overlay.
func (fs *FS) upper() bool { return fs.cfg.Work > 0 }

// InWork reports whether a path is in the work directory.
func InWork(path string) bool { return strings.HasPrefix(path, WorkPrefix) }

// newTree makes the table of inodes for the root directory with this key.
func (fs *FS) newTree(root inode.Key) (*inode.Table, error) {
	if !fs.upper() {
		return inode.New(root), nil
	}
	st, e := backing.StatAt(fs.cfg.Work, "")
	if e == 0 && !backing.IsDir(&st) {
		e = syscall.ENOTDIR
	}
	if e != 0 {
		return nil, fmt.Errorf("fusefs: work directory: %w", e)
	}
	t := inode.NewUpper(root, fs.layers.Undated.KeyOf(0, &st))
	t.Work.SetKeep(uint32(KeepAll))
	return t, nil
}

// hidden checks that only this process's user reaches the mount point of a view that is an upper layer.
func (fs *FS) hidden() error {
	if !fs.upper() {
		return nil
	}
	dir := filepath.Dir(fs.cfg.Mountpoint)
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return fmt.Errorf("fusefs: directory of the mount point: %w", &os.PathError{Op: "lstat", Path: dir, Err: err})
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Mode&0o077 != 0 || int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%w: %s: a view below an overlay needs a directory of mode 0700 around it", ErrConfig, dir)
	}
	return nil
}

// topAttr fills the attributes of the root directory of the mount, which is in no backing root.
func topAttr(out *fuse.Attr) {
	*out = fuse.Attr{Ino: fuse.FUSE_ROOT_ID, Mode: unix.S_IFDIR | 0o700, Nlink: 4, Blksize: 4096}
}

// lookupTop answers a look-up in the root directory of the mount.
func (fs *FS) lookupTop(name string, out *fuse.EntryOut) syscall.Errno {
	n := fs.tree.Root
	switch name {
	case UpperName:
	case WorkName:
		n = fs.tree.Work
	default:
		return syscall.ENOENT
	}
	fs.tree.Names.RLock()
	defer fs.tree.Names.RUnlock()
	st, e := fs.layers.Stat(n)
	if e != 0 {
		return e
	}
	out.NodeId, out.Generation = n.ID, 1
	fs.attr(fs.layers.MergedTimes(n, &st), &out.Attr)
	out.SetEntryTimeout(fs.timeout)
	out.SetAttrTimeout(fs.freshTTL(n, &st))
	return 0
}

// isTop reports whether a request is about the root directory of the mount, and the view shows
// nothing in it but the two layers.
func (fs *FS) isTop(node uint64) bool { return fs.upper() && node == fuse.FUSE_ROOT_ID }

// isCopy reports whether a file is a copy that the overlay has not named yet: the original is on the
// disk, and nothing in the copy is the agent's.
func (fs *FS) isCopy(n *inode.Node) bool {
	if !fs.upper() {
		return false
	}
	_, named := fs.tree.Nth(n, 0)
	return !named && InWork(fs.tree.Path(n))
}

// overlayXattr reports whether an attribute is one of the overlay's own.
func (fs *FS) overlayXattr(name string) bool {
	return strings.HasPrefix(name, overlayXattrs) && fs.upper()
}

// getOverlayXattr reads an attribute of the overlay's own. The guard knows nothing of them.
func (fs *FS) getOverlayXattr(node uint64, name string, dest []byte) (uint32, fuse.Status) {
	n := fs.tree.Get(node)
	if n == nil {
		return 0, status(syscall.ESTALE)
	}
	fs.tree.Names.RLock()
	defer fs.tree.Names.RUnlock()
	size := 0
	e := fs.withAnyProc(n, func(p string) (err error) {
		size, err = unix.Getxattr(p, name, dest)
		return err
	})
	return uint32(size), status(e)
}

// changeOverlayXattr changes an attribute of the overlay's own: it changes nothing that an agent
// sees. The directory that it belongs to must be the view's own.
func (fs *FS) changeOverlayXattr(node uint64, change func(path string) error) fuse.Status {
	n := fs.tree.Get(node)
	if n == nil {
		return status(syscall.ESTALE)
	}
	if n.CopyUp() {
		fs.tree.Names.Lock()
		e := fs.layers.CopyUpDir(n)
		fs.tree.Names.Unlock()
		if e != 0 {
			return status(e)
		}
	}
	fs.tree.Names.RLock()
	defer fs.tree.Names.RUnlock()
	if n.CopyUp() { // a file that others have, too
		return fuse.EPERM
	}
	return status(fs.withAnyProc(n, change))
}

// besideWork is cfg.Shared whose paths are none of the work directory.
func besideWork(cfg Config) *overlay.Shared {
	s := cfg.Shared
	if s == nil || s.Paths == nil || cfg.Work <= 0 {
		return s
	}
	with := *s
	with.Paths = notInWork{s.Paths}
	return &with
}

type notInWork struct{ overlay.Paths }

// Top implements overlay.Paths.
func (p notInWork) Top(path string) string {
	if InWork(path) {
		return ""
	}
	return p.Paths.Top(path)
}
