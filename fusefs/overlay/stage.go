package overlay

import (
	"context"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
	"polis/fusefs/inode"
)

// staged is a private copy of a foreign object that has no place in the tree
// yet. It is made without a lock held: a file may be large.
type staged struct {
	l    *Layers
	name string // in stageDir; "" once it was put into the tree, and for a nameless copy
	nameless
}

// drop removes a copy that was not used.
func (s *staged) drop() {
	if s == nil {
		return
	}
	if s.name != "" {
		_ = unix.Unlinkat(s.l.stageDir, s.name, 0) // a leftover is removed at the next start
		s.name = ""
	}
	s.close()
}

// put gives the copy its place, and replaces what is there only if replace is set.
func (s *staged) put(dir int, name string, replace bool) syscall.Errno {
	if s.name == "" {
		return s.link(dir, name)
	}
	flags := uint(unix.RENAME_NOREPLACE)
	if replace {
		flags = 0
	}
	if err := unix.Renameat2(s.l.stageDir, s.name, dir, name, flags); err != nil {
		return backing.Errno(err)
	}
	s.name = ""
	return 0
}

// stage copies a foreign object that is not a directory.
func (l *Layers) stage(ctx context.Context, n *inode.Node, empty bool) (*staged, syscall.Errno) {
	if n.IsDir() {
		return nil, 0
	}
	l.Tree.Names.RLock()
	flags := unix.O_PATH
	if n.IsRegular() {
		flags = unix.O_RDONLY | unix.O_NONBLOCK
	}
	from, st, e := -1, unix.Statx_t{}, syscall.Errno(0)
	stranded := l.stranded(n)
	if n.CopyUp() || stranded { // else another request was faster
		from, st, e = l.Open(n, flags)
	}
	apart := l.apart && n.Root() == l.lower || len(l.Tree.Refs(n)) == 0
	l.Tree.Names.RUnlock()
	if e != 0 || from < 0 {
		return nil, e
	}
	defer backing.Close(from)
	if stranded && changeable(from) {
		return nil, 0
	}
	s := &staged{l: l, nameless: nameless{fd: -1}}
	if !apart {
		s.name = "c" + strconv.FormatUint(l.staged.Add(1), 10)
	}
	switch {
	case apart && n.IsRegular():
		e = s.copyFile(ctx, l.copiesOf(n), from, &st, empty)
	case apart:
		e = s.copyLink(from, &st)
	case n.IsRegular():
		e = l.stageFile(ctx, s.name, from, &st, empty)
	default:
		e = l.stageLink(s.name, from, &st)
	}
	if e != 0 {
		s.drop()
		return nil, e
	}
	return s, 0
}

func (l *Layers) stageFile(ctx context.Context, name string, from int, st *unix.Statx_t, empty bool) syscall.Errno {
	fd, e := backing.OpenAt(l.stageDir, name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o600)
	if e != 0 {
		return e
	}
	defer backing.Close(fd)
	return fill(ctx, fd, from, st, empty)
}

// fill makes a new file a copy of another.
func fill(ctx context.Context, fd, from int, st *unix.Statx_t, empty bool) syscall.Errno {
	if !empty {
		if e := backing.CopyContent(ctx, fd, from); e != 0 {
			return e
		}
	}
	if e := backing.CopyXattrs(fd, from); e != 0 {
		return e
	}
	if e := backing.SetOwnerMode(fd, int(st.Uid), int(st.Gid), uint32(st.Mode)&0o7777); e != 0 {
		return e
	}
	return backing.Errno(unix.UtimesNanoAt(fd, "", backing.Times(st), unix.AT_EMPTY_PATH))
}

func (l *Layers) stageLink(name string, from int, st *unix.Statx_t) syscall.Errno {
	text, e := readLink(from)
	if e != 0 {
		return e
	}
	return makeLink(text, l.stageDir, name, st)
}

func readLink(fd int) (string, syscall.Errno) {
	buf := make([]byte, unix.PathMax)
	c, err := unix.Readlinkat(fd, "", buf)
	if err != nil {
		return "", backing.Errno(err)
	}
	return string(buf[:c]), 0
}

// makeLink makes a symbolic link with the owner and the times of another.
func makeLink(text string, dir int, name string, st *unix.Statx_t) syscall.Errno {
	if err := unix.Symlinkat(text, dir, name); err != nil {
		return backing.Errno(err)
	}
	err := unix.Fchownat(dir, name, int(st.Uid), int(st.Gid), unix.AT_SYMLINK_NOFOLLOW)
	if err == nil {
		err = unix.UtimesNanoAt(dir, name, backing.Times(st), unix.AT_SYMLINK_NOFOLLOW)
	}
	if err != nil {
		_ = unix.Unlinkat(dir, name, 0) // the error to report is the first one
	}
	return backing.Errno(err)
}
