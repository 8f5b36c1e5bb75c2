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
	name string // in stageDir; "" once it was put into the tree
}

// drop removes a copy that was not used.
func (s *staged) drop() {
	if s != nil && s.name != "" {
		_ = unix.Unlinkat(s.l.stageDir, s.name, 0) // a leftover is removed at the next start
		s.name = ""
	}
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
	if n.CopyUp() { // else another request was faster
		from, st, e = l.Open(n, flags)
	}
	l.Tree.Names.RUnlock()
	if e != 0 || from < 0 {
		return nil, e
	}
	defer backing.Close(from)
	s := &staged{l: l, name: "c" + strconv.FormatUint(l.staged.Add(1), 10)}
	if n.IsRegular() {
		e = l.stageFile(ctx, s.name, from, &st, empty)
	} else {
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
	buf := make([]byte, unix.PathMax)
	c, err := unix.Readlinkat(from, "", buf)
	if err != nil {
		return backing.Errno(err)
	}
	if err := unix.Symlinkat(string(buf[:c]), l.stageDir, name); err != nil {
		return backing.Errno(err)
	}
	if err := unix.Fchownat(l.stageDir, name, int(st.Uid), int(st.Gid), unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return backing.Errno(err)
	}
	return backing.Errno(unix.UtimesNanoAt(l.stageDir, name, backing.Times(st), unix.AT_SYMLINK_NOFOLLOW))
}
