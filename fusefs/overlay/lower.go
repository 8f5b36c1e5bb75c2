package overlay

import (
	"strings"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
	"polis/fusefs/inode"
)

// lowerTimeout is how long the kernel may keep names and
// attributes that others change: the user, in the checkout.
const lowerTimeout = time.Second

// settle finds the root that a name routed to the main one is in: the lower one
// if the name shows from there. Called with the name lock held.
func (l *Layers) settle(parent *inode.Node, name, path string) int {
	if l.lower < 0 {
		return 0
	}
	top := l.Shared.Paths.Top(path)
	if top == "" || l.Shared.Whiteouts.Has(path) {
		return 0
	}
	if up, e := l.Dir(parent, 0); e == 0 {
		_, e = backing.StatAt(up.FD, name)
		l.dirs.put(up)
		if e == 0 {
			return 0
		}
	}
	if _, e := l.statLower(path, top); e != 0 {
		return 0
	}
	return l.lower
}

// statLower reads what shows from below at path, whose shared name is top, whatever the tree has
// in its place.
func (l *Layers) statLower(path, top string) (unix.Statx_t, syscall.Errno) {
	dir := true // what is below a shared name says that it is a directory
	d, e := l.openLower(parentPath(path))
	if e != 0 {
		return unix.Statx_t{}, e
	}
	defer backing.Close(d)
	st, e := backing.StatAt(d, path[strings.LastIndexByte(path, '/')+1:])
	if e != 0 {
		return st, e
	}
	kind := uint32(st.Mode) & unix.S_IFMT
	if kind != unix.S_IFREG && kind != unix.S_IFDIR && kind != unix.S_IFLNK {
		return st, syscall.ENOENT // a pipe or socket would join an agent to the host
	}
	if path == top {
		dir = kind == unix.S_IFDIR
	}
	if !l.Shared.Paths.Shown(top, dir) {
		return st, syscall.ENOENT
	}
	return st, 0
}

// shows reports whether path, if it went away in the tree, would show from below.
func (l *Layers) shows(path string) bool {
	if l.lower < 0 || l.Shared.Whiteouts.Has(path) {
		return false
	}
	top := l.Shared.Paths.Top(path)
	if top == "" {
		return false
	}
	_, e := l.statLower(path, top)
	return e == 0
}

// hide makes sure that path does not show from below any more.
func (l *Layers) hide(path string) syscall.Errno {
	if !l.shows(path) {
		return 0
	}
	return l.errnoLogged("add-whiteout", l.Shared.Whiteouts.Add(path))
}

// openLower opens a directory of the lower root. No descriptor is kept: the
// user may have put another directory in its place since.
func (l *Layers) openLower(path string) (int, syscall.Errno) {
	if path == "" {
		path = "."
	}
	if path[0] == '/' { // of the work directory, which nothing shows in
		return -1, syscall.ENOENT
	}
	return backing.OpenAt(l.roots[l.lower], path, unix.O_PATH|unix.O_DIRECTORY, 0)
}

// lowerDir is dir for the lower root.
func (l *Layers) lowerDir(n *inode.Node) (*DirFD, syscall.Errno) {
	fd, e := l.openLower(l.Tree.Path(n))
	if e != 0 {
		return nil, backing.Stale(e)
	}
	if n.Root() == l.lower {
		st, e := backing.StatAt(fd, "")
		if e == 0 && !n.Is(&st) {
			e = syscall.ESTALE
		}
		if e != 0 {
			backing.Close(fd)
			return nil, e
		}
	}
	return &DirFD{FD: fd, once: true}, 0
}

// below lists what the lower root shows in a directory, whatever the tree has
// there. n may be nil. Called with the name lock held.
func (l *Layers) below(n *inode.Node, path string) []fuse.DirEntry {
	if l.lower < 0 || l.Shared.Whiteouts.Has(path) {
		return nil
	}
	fd, e := l.openLower(path)
	if e != 0 {
		return nil // the project has no such directory
	}
	defer backing.Close(fd)
	entries, e := backing.ReadDir(fd)
	if e != 0 {
		return nil
	}
	s := l.Shared
	out := entries[:0]
	for _, en := range entries {
		p := join(path, en.Name)
		top := s.Paths.Top(p)
		if top == "" || s.Whiteouts.Has(p) || !s.Paths.Shown(top, top != p || en.Mode == unix.S_IFDIR) {
			continue
		}
		switch en.Mode {
		case unix.S_IFREG, unix.S_IFDIR, unix.S_IFLNK:
			out = append(out, en)
		}
	}
	if n != nil && len(out) > 0 {
		n.SetMerged()
	}
	return out
}

// BoundName and BoundAttr limit how long the kernel may keep a name and
// attributes that others can change.
func (l *Layers) BoundName(n *inode.Node, ttl time.Duration) time.Duration {
	if l.lower >= 0 && n.Root() == l.lower {
		return min(ttl, lowerTimeout)
	}
	return ttl
}

func (l *Layers) BoundAttr(n *inode.Node, ttl time.Duration) time.Duration {
	if l.lower >= 0 && (n.Root() == l.lower || n == l.Tree.Root || n.Merged()) {
		return min(ttl, lowerTimeout)
	}
	return ttl
}

// MergedTimes gives a directory in which names show from below the later of the
// two times of change: the kernel reads its listing again when that differs.
func (l *Layers) MergedTimes(n *inode.Node, st *unix.Statx_t) *unix.Statx_t {
	if l.lower < 0 || !n.IsDir() || n.Root() != 0 || n != l.Tree.Root && !n.Merged() {
		return st
	}
	fd, e := l.openLower(l.Tree.Path(n))
	if e != 0 {
		return st
	}
	defer backing.Close(fd)
	low, e := backing.StatAt(fd, "")
	if e != 0 || low.Mtime.Sec < st.Mtime.Sec || low.Mtime.Sec == st.Mtime.Sec && low.Mtime.Nsec <= st.Mtime.Nsec {
		return st
	}
	both := *st
	both.Mtime = low.Mtime
	return &both
}

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

func parentPath(path string) string { return path[:max(strings.LastIndexByte(path, '/'), 0)] }

// FileBelow returns the attributes of what the lower root shows at a path; nil if nothing. ok is false
// if the tree has something there, or the agent removed it: then nothing of the lower root shows, whatever it has.
func (l *Layers) FileBelow(path string) (st *unix.Statx_t, ok bool) {
	top := l.Shared.Paths.Top(path)
	if l.Shared.Whiteouts.Has(path) {
		return nil, false
	}
	if fd, err := unix.Openat2(l.Main(), path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: backing.ResolveFlags}); err == nil {
		backing.Close(fd)
		return nil, false
	}
	if top != path { // no pattern has it any more, or it is in a directory that shows
		return nil, true
	}
	at, e := l.statLower(path, top)
	if e != 0 {
		return nil, true
	}
	return &at, true
}

// FilesBelow returns the names in the root directory of what the lower root shows there, without directories.
func (l *Layers) FilesBelow() []string {
	var out []string
	for _, en := range l.below(nil, "") {
		if en.Mode != unix.S_IFDIR {
			out = append(out, en.Name)
		}
	}
	return out
}
