package view

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"polis/fusefs"
	"polis/fusefs/policy"
	"polis/fusefs/policy/glob"
)

// Guard is the fusefs.Guard of one worktree.
type Guard struct {
	cfg    Config
	root   int // -1 if none
	exempt []*glob.Pattern
	holder Holder      // the Locker, if it is one
	local  LocalLocker // the Locker, if it is one
	set    atomic.Pointer[policy.Set]
	swaps  atomic.Uint64 // number of replaced policies
	stats  counters
}

var (
	_ fusefs.Guard          = (*Guard)(nil)
	_ fusefs.CacheableGuard = (*Guard)(nil)
	_ fusefs.SkipsPublish   = (*Guard)(nil)
	_ fusefs.ObjectCounter  = (*Guard)(nil)
	_ fusefs.Mover          = (*Guard)(nil)
	_ fusefs.Recorder       = (*Guard)(nil)
	_ fusefs.HiddenRefuser  = (*Guard)(nil)
	_ fusefs.UnlinkedGuard  = (*Guard)(nil)
)

// New makes the guard. Close closes its descriptor.
func New(cfg Config, set *policy.Set) (*Guard, error) {
	switch {
	case cfg.Agent == "":
		return nil, fmt.Errorf("%w: no agent", ErrConfig)
	case cfg.Locker == nil:
		return nil, fmt.Errorf("%w: no locker", ErrConfig)
	case set == nil:
		return nil, fmt.Errorf("%w: no policy", ErrConfig)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	g := &Guard{cfg: cfg, root: -1}
	g.holder, _ = cfg.Locker.(Holder)
	g.local, _ = cfg.Locker.(LocalLocker)
	for i, s := range cfg.Exempt {
		p, err := glob.Compile(s)
		if err != nil {
			return nil, fmt.Errorf("view: exempt[%d] %q: %w", i, s, err)
		}
		g.exempt = append(g.exempt, p)
	}
	if cfg.RootFD > 0 {
		fd, err := unix.FcntlInt(uintptr(cfg.RootFD), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			return nil, fmt.Errorf("view: duplicate root: %w", err)
		}
		g.root = fd
	}
	g.set.Store(set)
	g.permitTemps(set)
	return g, nil
}

// Close closes the guard's descriptor. The guard must not be used afterwards.
func (g *Guard) Close() error {
	if g.root < 0 {
		return nil
	}
	return unix.Close(g.root)
}

// SetPolicy replaces the whole policy. Present operations finish under the old policy, except
// those that wait for a lease or an answer: they are decided again. The caller must invalidate the
// names that the kernel has cached.
func (g *Guard) SetPolicy(set *policy.Set) {
	g.set.Store(set)
	g.swaps.Add(1) // after it: a verdict cached under the new generation must not be of the old policy
	g.permitTemps(set)
}

// Policy returns the policy in force.
func (g *Guard) Policy() *policy.Set { return g.set.Load() }

// Route implements fusefs.Guard: a worktree has one root, and the package store another.
func (g *Guard) Route(path string) int {
	if g.inStore(path) {
		return StoreRoot
	}
	return 0
}

// inStore reports whether path is in the package store. The store is the agent's own, as its
// scratch directory: neither rules nor leases apply.
func (g *Guard) inStore(path string) bool {
	rest, ok := strings.CutPrefix(path, g.cfg.Store)
	return ok && g.cfg.Store != "" && (rest == "" || rest[0] == '/')
}

// Publish implements fusefs.Guard: the content of a worktree is not checked.
func (*Guard) Publish(context.Context, fusefs.Caller, string, string, int) syscall.Errno { return 0 }

// PublishesAll implements fusefs.SkipsPublish.
func (*Guard) PublishesAll() bool { return true }

// Visible implements fusefs.Guard.
func (g *Guard) Visible(path string, dir bool) bool {
	return path == "" || g.inStore(path) || g.set.Load().DecideThrough(path, dir).Read != policy.Hide
}

// Generation implements fusefs.CacheableGuard.
func (g *Guard) Generation() uint64 { return g.swaps.Load() }

// CachedVerdict implements fusefs.CacheableGuard.
func (g *Guard) CachedVerdict(path string, dir bool) fusefs.CachedVerdict {
	switch {
	case path == "", g.inStore(path):
		return fusefs.Shown | fusefs.Readable
	case !clean(path):
		return 0
	}
	set := g.set.Load()
	d := set.DecideThrough(path, dir)
	switch {
	case d.Read == policy.Hide:
		return fusefs.Unreadable | fusefs.Unwritable
	case g.isGitFile(path):
		return fusefs.Shown | fusefs.Readable
	}
	s := fusefs.Shown
	switch {
	case dir: // the names may be listed, the attributes not
		if d.Read == policy.Allow && set.DecideThrough(path, false).Read == policy.Allow {
			s |= fusefs.Readable
		}
		return s
	case d.Read == policy.Allow:
		s |= fusefs.Readable
	case d.Read == policy.Deny:
		s |= fusefs.Unreadable
	}
	if d.Write == policy.Deny || g.cfg.ReadOnly {
		s |= fusefs.Unwritable
	}
	if g.cfg.Temps == nil || d.Explicit() {
		return s
	}
	return g.tempVerdict(set, path, s)
}

// Xattr implements fusefs.Guard.
func (g *Guard) Xattr(path, name string) ([]byte, bool) {
	switch name {
	case "user.polis.lease":
		if g.cfg.LeaseInfo != nil {
			if s, ok := g.cfg.LeaseInfo(path); ok {
				return []byte(s), true
			}
		}
	case "user.polis.policy":
		d := g.set.Load().DecideThrough(path, false)
		return fmt.Appendf(nil, "read=%s write=%s %s", d.Read, d.Write, d.Rule), true
	}
	return nil, false
}

// decideTries is how often an operation is decided again because the policy was replaced.
const decideTries = 16

// Read implements fusefs.Guard.
func (g *Guard) Read(ctx context.Context, c fusefs.Caller, op fusefs.Op, path string) syscall.Errno {
	for range decideTries {
		swaps := g.swaps.Load()
		if errno := g.read(ctx, c, op, path, true); errno != 0 || g.swaps.Load() == swaps {
			return errno
		}
	}
	return syscall.ESTALE
}

// read decides once, about the tree as it is. Without ask it is about an earlier version of the tree, and a rule that asks refuses.
func (g *Guard) read(ctx context.Context, c fusefs.Caller, op fusefs.Op, path string, ask bool) syscall.Errno {
	if !clean(path) {
		return g.refuse(c, op, false, Denial{Path: path, Code: CodePathTraversal}, syscall.EACCES)
	}
	if path == "" || g.isGitFile(path) || g.inStore(path) {
		return 0
	}
	dir := op == fusefs.OpReaddir
	set := g.set.Load()
	d := set.DecideThrough(path, dir)
	if ask && !dir {
		d = g.readTemp(set, path, d)
	}
	switch {
	case d.Read == policy.Allow:
		return 0
	case d.Read == policy.Hide:
		return g.refuse(c, op, false, Denial{Path: path, Code: CodeHidden, Rule: d.Rule}, syscall.ENOENT)
	case dir:
		return 0 // names are metadata: git status lists files that it cannot read
	case d.Read == policy.Ask && !ask:
		return g.refuse(c, op, false, Denial{Path: path, Code: CodeNotApproved, Rule: d.Rule}, syscall.EACCES)
	case d.Read == policy.Ask:
		return g.ask(ctx, c, op, Request{Rule: d.Rule, Paths: []string{path}, Content: op == fusefs.OpOpenRead})
	}
	return g.refuse(c, op, false, Denial{Path: path, Code: CodeUndeclaredRead, Rule: d.Rule}, syscall.EACCES)
}

// Write implements fusefs.Guard: all names pass the policy before any lease is taken, and all
// leases are taken at once.
func (g *Guard) Write(ctx context.Context, c fusefs.Caller, op fusefs.Op, targets ...fusefs.Target) (fusefs.Ticket, syscall.Errno) {
	for range decideTries {
		swaps := g.swaps.Load()
		tk, errno := g.write(ctx, c, op, targets)
		if errno != 0 || g.swaps.Load() == swaps {
			return tk, errno
		}
		if f, ok := tk.(fusefs.Failer); ok {
			f.Failed()
		}
		tk.Done() // the policy was replaced while this waited
	}
	return nil, syscall.ESTALE
}

func (g *Guard) write(ctx context.Context, c fusefs.Caller, op fusefs.Op, targets []fusefs.Target) (tk fusefs.Ticket, errno syscall.Errno) {
	if g.cfg.ReadOnly {
		d := Denial{Code: CodeReadOnly}
		if len(targets) > 0 {
			d.Path = targets[0].Path
		}
		return nil, g.refuse(c, op, true, d, syscall.EROFS)
	}
	use, errno := g.policy(ctx, c, op, targets)
	if errno != 0 {
		return nil, errno
	}
	if use != nil {
		defer func() {
			if errno != 0 {
				use.close()
			}
		}()
	}
	if long := tooLong(op, targets); long > 0 {
		return nil, g.refuse(c, op, true, Denial{Path: targets[0].Path, Code: CodeTooLarge,
			Rule: fmt.Sprintf("the new path has %d bytes, and %d are the most", long, MaxPath)}, syscall.ENAMETOOLONG)
	}
	if g.cfg.Quota != nil && op.Adds() {
		if full := g.cfg.Quota(op); full != "" {
			return nil, g.refuse(c, op, true, Denial{Path: targets[0].Path, Code: CodeQuota, Hint: full}, syscall.EDQUOT)
		}
	}
	if use != nil {
		if tk, errno = g.lease(ctx, c, op, use.leased); errno == 0 {
			tk, errno = use.begin(tk)
		}
		return tk, errno
	}
	tk, errno = g.lease(ctx, c, op, targets)
	if errno == 0 && op == fusefs.OpUnlink && g.cfg.Deleting != nil && !g.inStore(targets[0].Path) {
		g.cfg.Deleting(c, targets[0].Path)
	}
	return tk, errno
}

// Counted implements fusefs.ObjectCounter.
func (g *Guard) Counted(_ string, n int) {
	if g.cfg.Counted != nil {
		g.cfg.Counted(n)
	}
}
