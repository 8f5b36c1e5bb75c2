package fusefs

import (
	"context"
	"slices"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// gateTries bounds how often the guard is asked anew because names moved while
// it was deciding.
const gateTries = 16

func callerOf(h *fuse.InHeader) Caller { return Caller{Pid: h.Pid, Uid: h.Uid, Gid: h.Gid} }

// read asks the guard about an object that is only read, then does the I/O
// under the name lock. An object with several names may be read if one of them
// may: its content is the same under each.
func (fs *FS) read(cancel request, h *fuse.InHeader, op Op, n *node, do func(path string) syscall.Errno) (errno syscall.Errno) {
	start := time.Now()
	defer func() { fs.guard.Count(op, false, errno, time.Since(start).Nanoseconds()) }()
	call := fs.newCall(cancel, h.Pid)
	defer call.finish()
	return fs.gateRead(call, callerOf(h), op, n, do)
}

func (fs *FS) gateRead(ctx context.Context, c Caller, op Op, n *node, do func(path string) syscall.Errno) syscall.Errno {
	for range gateTries {
		paths := fs.tree.paths(n)
		allowed, errno := "", syscall.ENOENT
		for _, p := range paths {
			if !fs.guard.Visible(p, n.isDir()) {
				continue
			}
			if errno = fs.guard.Read(ctx, c, op, p); errno == 0 {
				allowed = p
				break
			}
		}
		if errno != 0 {
			return errno
		}
		fs.ns.RLock()
		if slices.Contains(fs.tree.paths(n), allowed) {
			defer fs.ns.RUnlock()
			return do(allowed)
		}
		fs.ns.RUnlock()
	}
	return syscall.ESTALE
}

// mutation is one change of the tree: what it is called, which names it
// changes, and how it is done.
type mutation struct {
	op Op
	// exclusive takes the name lock for writing: names of existing objects
	// change.
	exclusive bool
	// targets computes the names. It is called with the name lock held for
	// reading, and again before do to see that they still hold.
	targets func() ([]Target, syscall.Errno)
	// publish, if set, is called after the guard allowed the names.
	publish func(ctx context.Context, c Caller, t []Target) syscall.Errno
	// do is the I/O, under the name lock.
	do func() syscall.Errno
}

// change puts a mutation to the guard, does it and counts it.
func (fs *FS) change(cancel request, h *fuse.InHeader, m mutation) syscall.Errno {
	tk, errno := fs.changeKeep(cancel, h, m)
	if tk != nil {
		tk.Done()
	}
	return errno
}

// changeKeep is change whose ticket stays with the caller on success.
func (fs *FS) changeKeep(cancel request, h *fuse.InHeader, m mutation) (tk Ticket, errno syscall.Errno) {
	start := time.Now()
	defer func() { fs.guard.Count(m.op, true, errno, time.Since(start).Nanoseconds()) }()
	call := fs.newCall(cancel, h.Pid)
	defer call.finish()
	for range gateTries {
		tk, errno, again := fs.tryChange(call, callerOf(h), m)
		if !again {
			return tk, errno
		}
	}
	return nil, syscall.ESTALE
}

func (fs *FS) tryChange(ctx context.Context, c Caller, m mutation) (tk Ticket, errno syscall.Errno, again bool) {
	targets, errno := fs.named(m.targets)
	if errno != 0 {
		return nil, errno, false
	}
	for _, t := range targets {
		if !fs.guard.Visible(t.Path, t.Dir) {
			return nil, syscall.ENOENT, false
		}
	}
	tk, errno = fs.guard.Write(ctx, c, m.op, targets...)
	if errno == 0 && tk == nil {
		errno = syscall.EACCES // a guard that forgets the ticket does not open the gate
	}
	if errno != 0 {
		if tk != nil {
			tk.Done()
		}
		return nil, errno, false
	}
	done := false
	defer func() {
		if done {
			return
		}
		if f, ok := tk.(Failer); ok && (errno != 0 || again) {
			f.Failed()
		}
		tk.Done() // also when something below panicked: a lease must not stay busy
		tk = nil
	}()
	if m.publish != nil {
		if errno = m.publish(ctx, c, targets); errno != 0 {
			return tk, errno, false
		}
	}
	if m.exclusive {
		fs.ns.Lock()
		defer fs.ns.Unlock()
	} else {
		fs.ns.RLock()
		defer fs.ns.RUnlock()
	}
	now, errno := m.targets()
	if errno != 0 {
		return tk, errno, false
	}
	if !slices.Equal(now, targets) {
		return tk, 0, true
	}
	errno = m.do()
	done = errno == 0
	return tk, errno, false
}

// named computes the names of a mutation under the name lock.
func (fs *FS) named(targets func() ([]Target, syscall.Errno)) ([]Target, syscall.Errno) {
	fs.ns.RLock()
	defer fs.ns.RUnlock()
	return targets()
}

// self is the targets function of a change to an object itself: all its names.
func (fs *FS) self(n *node) func() ([]Target, syscall.Errno) {
	return func() ([]Target, syscall.Errno) {
		paths := fs.tree.paths(n)
		out := make([]Target, len(paths))
		for i, p := range paths {
			out[i] = Target{Path: p, Dir: n.isDir()}
		}
		return out, 0
	}
}

// entry is the targets function of a change to one name of a directory.
func (fs *FS) entry(parent *node, name string, dir bool) func() ([]Target, syscall.Errno) {
	return func() ([]Target, syscall.Errno) {
		return []Target{{Path: fs.tree.child(parent, name), Dir: dir}}, 0
	}
}
