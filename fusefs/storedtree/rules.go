package storedtree

import (
	"errors"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"polis/fusefs/conn"
)

// visible reports whether the rules show a node.
func (fs *FS) visible(n *node) bool {
	return fs.cfg.Rules == nil || n.path == "" || fs.cfg.Rules.Visible(n.path, n.at != nil)
}

// mayRead asks the rules whether a process may open a file, or read the target of a link.
func (fs *FS) mayRead(pid uint32, n *node) unix.Errno {
	if fs.cfg.Rules == nil {
		return 0
	}
	return fs.cfg.Rules.Read(pid, n.attr.Mode&unix.S_IFMT == unix.S_IFLNK, n.path)
}

// OpenDir returns ENOSYS, with which the kernel keeps the names of directories, unless there are rules.
func (fs *FS) OpenDir(c *conn.Call, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if fs.cfg.Rules == nil {
		return fs.ReadOnly.OpenDir(c, in, out)
	}
	return fuse.OK
}

// RulesChanged drops what the kernel has cached of files that are open and that the rules forbid now: the next
// read of them fails.
func (fs *FS) RulesChanged() error {
	if fs.cfg.Rules == nil {
		return nil
	}
	fs.mu.Lock()
	ids := map[uint64]bool{}
	for _, h := range fs.open {
		if fs.cfg.Rules.Forbidden(h.node.path) {
			ids[h.node.attr.Ino] = true
		}
	}
	fs.mu.Unlock()
	var errs []error
	for id := range ids {
		if e := fs.conn.InodeNotify(id, 0, 0); e != 0 && e != unix.ENOENT {
			errs = append(errs, e)
		}
	}
	return errors.Join(errs...)
}
