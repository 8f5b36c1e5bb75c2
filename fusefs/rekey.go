package fusefs

import (
	"syscall"

	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
)

// rekey makes a node stand for another object. The kernel notices nothing but
// another inode number. ns is held for writing.
func (fs *FS) rekey(n *node, k key) {
	fs.tree.rekey(n, k)
	fs.dirs.drop(n, len(fs.roots))
}

// rekey replaces a node's object; k.own says that the new one is to be copied up, too.
func (t *tree) rekey(n *node, k key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byK[n.key] == n {
		delete(t.byK, n.key)
	}
	if k.own != 0 {
		k.own = n.id
	}
	n.key = k
	n.copyUp.Store(k.own != 0)
	t.byK[k] = n
}

// reopen lets the open files of a node, all of them read-only, go on with the
// object that has taken its place: it has the same content. dup3 changes what a
// descriptor stands for in one step, under a READ that may be using it.
func (fs *FS) reopen(n *node, dir int, name string, st *unix.Statx_t) syscall.Errno {
	n.io.mu.Lock()
	defer n.io.mu.Unlock()
	now := stampOf(st)
	n.io.seen = &now
	if n.io.data > 0 {
		if e := replaceFD(int(n.io.data), dir, name); e != 0 {
			return e
		}
	}
	for h := n.io.open; h != nil; h = h.next {
		if h.fd < 0 || h.writable {
			continue
		}
		if e := replaceFD(h.fd, dir, name); e != 0 {
			return e
		}
	}
	return 0
}

func replaceFD(old, dir int, name string) syscall.Errno {
	fd, e := backing.OpenAt(dir, name, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if e != 0 {
		return e
	}
	defer backing.Close(fd)
	return backing.Errno(unix.Dup3(fd, old, unix.O_CLOEXEC))
}
