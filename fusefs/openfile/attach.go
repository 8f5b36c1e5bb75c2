package openfile

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
)

// Opening is what decides how the data of a file that was opened flows.
type Opening struct {
	Attr *unix.Statx_t
	UID  uint32 // of the caller
	// Exclusive: only the view changes the file's content, or invalidates it in the kernel.
	Exclusive bool
	// Replaceable: another object may take the file's place while it is open.
	Replaceable bool
}

// Attach adds an open file to its inode, chooses how its data flows and fills
// the answer but for the number of the handle.
func (p *Passthrough) Attach(i *Inode, h *Handle, o Opening, out *fuse.OpenOut) {
	i.mu.Lock()
	defer i.mu.Unlock()
	u := i.change()
	first := u.open == nil
	if first {
		i.mode = cached
		if p.wanted(h, &o) && p.register(i, h) {
			i.mode = passthrough
		}
	}
	i.setSize(o.Attr.Size)
	if h.Made && h.Mappable {
		i.given = false
	}
	if h.Mappable && u.mappers == 0 {
		before := stampOf(o.Attr)
		u.before = &before
	}
	i.insert(h)
	out.OpenFlags, i.pushed = fuse.FOPEN_NOFLUSH, false
	if i.mode == passthrough {
		out.OpenFlags |= fuse.FOPEN_PASSTHROUGH
		out.BackingID = u.backing
		u.seen = nil
	} else if i.fresh(o.Attr, o.Exclusive) || !first {
		out.OpenFlags |= fuse.FOPEN_KEEP_CACHE
	}
}

// fresh reports whether the pages the kernel may have are those of the file as st
// describes it. Where nobody else can change it they are, unless it was invalidated
// since; elsewhere they are if the file looks as it did then.
func (i *Inode) fresh(st *unix.Statx_t, exclusive bool) bool {
	if exclusive {
		was := i.current
		i.current = true
		return was
	}
	now := stampOf(st)
	u := i.change()
	was := u.seen != nil && *u.seen == now
	u.seen = &now
	return was
}

// Release takes an open file out of its inode and closes it. It reports whether the
// kernel may keep attributes that are no longer right: stores through a mapping
// change size and times unseen.
func (i *Inode) Release(h *Handle) (stale bool) {
	i.mu.Lock()
	i.unlink(h)
	stale = h.Writable && i.written(h)
	if i.use.mappers == 0 {
		i.use.before = nil
	}
	i.settle()
	i.mu.Unlock()
	h.Close()
	return stale
}

// written is called when a writer has gone and reports whether the kernel may
// keep attributes that are no longer right.
func (i *Inode) written(h *Handle) bool {
	u := i.use
	again := u.open == nil && i.mode == cached && u.seen != nil
	kept := h.Mappable && i.given
	if !kept && !again {
		return false
	}
	st, e := backing.StatAt(h.FD, "")
	if e != 0 {
		return true
	}
	now := stampOf(&st)
	if again {
		u.seen = &now
	}
	if !kept || *u.before == now {
		return false
	}
	i.given = false
	return true
}

// Reopen lets the open files of an inode, all of them read-only, continue with the
// object that has taken its place: it has the same content, and open opens it. dup3 changes what a
// descriptor stands for in one step, under a READ that may be using it.
func (i *Inode) Reopen(open func(flags int) (int, syscall.Errno), st *unix.Statx_t) syscall.Errno {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := stampOf(st)
	u := i.change()
	u.seen = &now
	if u.pin > 0 {
		if e := replaceFD(int(u.pin), open, unix.O_PATH); e != 0 {
			return e
		}
	}
	if u.data > 0 {
		if e := replaceFD(int(u.data), open, unix.O_RDONLY|unix.O_NONBLOCK); e != 0 {
			return e
		}
	}
	for h := u.open; h != nil; h = h.next {
		if h.FD < 0 || h.Writable {
			continue
		}
		if e := replaceFD(h.FD, open, unix.O_RDONLY|unix.O_NONBLOCK); e != 0 {
			return e
		}
	}
	return 0
}

func replaceFD(old int, open func(flags int) (int, syscall.Errno), flags int) syscall.Errno {
	fd, e := open(flags)
	if e != 0 {
		return e
	}
	defer backing.Close(fd)
	return backing.Errno(unix.Dup3(fd, old, unix.O_CLOEXEC))
}
