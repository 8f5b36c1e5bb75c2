package fusefs

import (
	"context"
	"slices"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"polis/fusefs/inode"
)

// gateTries bounds how often the guard is called again because names moved while it was deciding.
const gateTries = 16

func callerOf(h *fuse.InHeader) Caller { return Caller{Pid: h.Pid, Uid: h.Uid, Gid: h.Gid} }

// passage is a read the guard was asked about. It is left exactly once.
type passage struct {
	fs    *FS
	op    Op
	start time.Time
	path  string // under which it is allowed; "" if the guard need not be asked
	in    bool   // the name lock is held
}

// enterRead asks the guard about an object that is only read, and takes the
// name lock for the I/O. An object with several names may be read if one of
// them may: its content is the same under each.
func (fs *FS) enterRead(cancel request, h *fuse.InHeader, op Op, n *inode.Node) (passage, syscall.Errno) {
	g := passage{fs: fs, op: op, start: time.Now()}
	fs.tree.Names.RLock()
	if fs.holds(n.Verdict.Load(), verdictReadable) {
		g.in = true
		return g, 0
	}
	fs.tree.Names.RUnlock()
	call := fs.newCall(cancel, h.Pid)
	defer call.finish()
	var e syscall.Errno
	g.path, e = fs.gateRead(call, callerOf(h), op, n)
	g.in = e == 0
	return g, e
}

// unlock gives the lock back before the end.
func (g *passage) unlock() {
	if g.in {
		g.fs.tree.Names.RUnlock()
		g.in = false
	}
}

// leave gives the lock back and counts the outcome.
func (g *passage) leave(errno syscall.Errno) {
	g.unlock()
	if errno == Restart {
		return
	}
	g.fs.guard.Count(g.op, false, errno, time.Since(g.start).Nanoseconds())
}

// gateRead asks under which of its names an object may be read. On success the
// name lock is held for reading.
func (fs *FS) gateRead(ctx context.Context, c Caller, op Op, n *inode.Node) (string, syscall.Errno) {
	for range gateTries {
		edits := fs.tree.Edits()
		paths := fs.tree.FewPaths(n)
		allowed, errno := fs.firstReadable(ctx, c, op, n, paths)
		if errno != 0 && errno != Restart && len(paths) == inode.FewNames {
			allowed, errno = fs.firstReadable(ctx, c, op, n, fs.tree.Paths(n))
		}
		if errno != 0 {
			return "", errno
		}
		fs.tree.Names.RLock()
		if fs.tree.Edits() == edits || slices.Contains(fs.tree.Paths(n), allowed) {
			fs.recall(n)
			return allowed, 0
		}
		fs.tree.Names.RUnlock()
	}
	return "", syscall.ESTALE
}

// firstReadable is the first of an object's paths under which the guard lets it
// be read.
func (fs *FS) firstReadable(ctx context.Context, c Caller, op Op, n *inode.Node, paths []string) (string, syscall.Errno) {
	errno := syscall.ENOENT
	if rules, ok := fs.unlinked(n); ok {
		if rules == "" {
			return paths[0], 0
		}
		return paths[0], fs.guard.Read(ctx, c, op, rules)
	}
	for _, p := range paths {
		if !fs.guard.Visible(p, n.IsDir()) {
			continue
		}
		if errno = fs.guard.Read(ctx, c, op, p); errno == 0 || errno == Restart {
			return p, errno
		}
	}
	return "", errno
}

// recall caches the guard's verdict on an object: that it may be read, if the guard allows it
// under one of its first names. The name lock is held.
func (fs *FS) recall(n *inode.Node) {
	if _, unlinked := fs.unlinked(n); unlinked || fs.cacheable == nil {
		return
	}
	edits := fs.tree.Edits()
	paths := fs.tree.FewPaths(n)
	var verdict uint64
	for _, p := range paths {
		v := fs.judge(p, n.IsDir())
		if len(paths) > 1 { // the verdict shown belongs to a name, not to the object
			v &^= inode.VerdictShown
		}
		verdict |= v
	}
	fs.tree.Remember(n, verdict, edits)
}

// mutation is one change of the tree: what it is called, which names it
// changes, and how it is done.
type mutation struct {
	op Op
	// exclusive takes the name lock for writing: names of existing objects
	// change.
	exclusive bool
	// targets computes the names. It is called with the name lock held for reading, and again
	// before do if names have changed meanwhile. always means that it depends on more than names.
	always  bool
	targets func() ([]Target, syscall.Errno)
	// publish, if set, is called after the guard allowed the names.
	publish func(ctx context.Context, c Caller, t []Target) syscall.Errno
	// temp, if set, gets the ticket if it is a Temporary, before do.
	temp *tempTicket
	// names, if set, gets from do which files get names, and lose them.
	names *openNames
	// do is the I/O, under the name lock.
	do func() syscall.Errno
	// done, if set, is called when do has succeeded, under the name lock.
	done func(t []Target)
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
	if fs.echoOf(h) != nil {
		return nil, syscall.EPERM // it changes nothing
	}
	start := time.Now()
	fs.formers.Changing(h.Pid)
	defer func() {
		if errno != Restart {
			fs.guard.Count(m.op, true, errno, time.Since(start).Nanoseconds())
		}
	}()
	audit := fs.auditing(m.op)
	if audit != nil {
		if errno := audit.Reserve(); errno != 0 {
			return nil, errno
		}
		m.done = func(t []Target) {
			audit.Record(callerOf(h), m.op, true, t...)
			audit = nil
		}
		defer func() {
			if audit != nil {
				audit.Release()
			}
		}()
	}
	call := fs.newCall(cancel, h.Pid)
	defer call.finish()
	for range gateTries {
		tk, errno, again := fs.tryChange(call, callerOf(h), &m)
		if !again {
			return tk, errno
		}
	}
	return nil, syscall.ESTALE
}

func (fs *FS) tryChange(ctx context.Context, c Caller, m *mutation) (tk Ticket, errno syscall.Errno, again bool) {
	targets, edits, errno := fs.named(m.targets)
	if errno != 0 {
		return nil, errno, false
	}
	for _, t := range targets {
		if !fs.guard.Visible(t.Path, t.Dir) {
			if fs.hider != nil {
				fs.hider.HiddenRefused(c, m.op, t)
			}
			return nil, syscall.ENOENT, false
		}
	}
	w := fs.watchMove(m, targets)
	defer w.end()
	defer m.names.end()
	tk, errno = fs.guard.Write(ctx, c, m.op, targets...)
	if errno == 0 && tk == nil {
		errno = syscall.EACCES // a nil ticket without an error is treated as a denial
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
	if errno = fs.awaitResume(ctx); errno != 0 {
		return tk, errno, false
	}
	if m.publish != nil {
		if errno = m.publish(ctx, c, targets); errno != 0 {
			return tk, errno, false
		}
	}
	if m.exclusive {
		fs.tree.Names.Lock()
		defer fs.tree.Names.Unlock()
	} else {
		fs.tree.Names.RLock()
		defer fs.tree.Names.RUnlock()
	}
	if m.always || fs.tree.Edits() != edits {
		now, errno := m.targets()
		if errno != 0 {
			return tk, errno, false
		}
		if !slices.Equal(now, targets) {
			return tk, 0, true
		}
	}
	if !w.carries(m.op, targets) {
		return tk, 0, true
	}
	if still, errno := m.temp.take(m.op, tk); !still || errno != 0 {
		return tk, errno, errno == 0
	}
	if fs.recorder != nil {
		r := fs.recorder.Changing(m.op, targets)
		defer fs.recorder.Changed(r)
	}
	errno = m.do()
	if done = errno == 0; done {
		tk = fs.changed(m, targets, tk)
	}
	return tk, errno, false
}
