package view

import (
	"context"
	"errors"
	"slices"
	"syscall"

	"polis/fusefs"
	"polis/fusefs/policy"
)

// maxAsked is the most names in one request to the commander.
const maxAsked = 64

// policy applies the rules to every name, and asks the commander once about those that need it. What they allow only
// because of temporary files is returned as a use of them.
func (g *Guard) policy(ctx context.Context, c fusefs.Caller, op fusefs.Op, targets []fusefs.Target) (*tempUse, syscall.Errno) {
	set := g.set.Load()
	if len(targets) == 0 {
		return nil, g.refuse(c, op, true, Denial{Code: CodeUndeclaredWrite}, syscall.EACCES)
	}
	v := verdicts{set: set, tracked: g.cfg.Tracked}
	for _, t := range targets {
		if !clean(t.Path) {
			return nil, g.refuse(c, op, true, Denial{Path: t.Path, Code: CodePathTraversal}, syscall.EACCES)
		}
		if g.isGitFile(t.Path) {
			return nil, g.refuse(c, op, true, Denial{Path: t.Path, Code: CodeUndeclaredWrite, Rule: "the worktree's .git"}, syscall.EACCES)
		}
		if !g.inStore(t.Path) && (op != fusefs.OpTmpfile || !t.Source) && (!t.Unlinked || !g.ownUnlinked(set, t.Path)) {
			v.add(op, t)
		}
	}
	if v.bad == nil {
		if err := g.trees(ctx, op, targets, &v); err != nil {
			if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
				return nil, syscall.EINTR
			}
			return nil, g.refuse(c, op, true, Denial{Path: targets[0].Path, Code: CodeUndeclaredWrite, Rule: err.Error()}, syscall.EACCES)
		}
	}
	use, reason := g.temporary(c, op, targets, &v)
	v.content = v.onlyContent(op, targets)
	if errno := g.decided(ctx, c, op, v, reason); errno != 0 {
		if use != nil {
			use.close()
		}
		return nil, errno
	}
	return use, 0
}

// decided refuses what the verdicts refuse, and asks about what they leave to a person. reason, if not empty, is why
// temporary files do not allow it.
func (g *Guard) decided(ctx context.Context, c fusefs.Caller, op fusefs.Op, v verdicts, reason string) syscall.Errno {
	switch {
	case v.bad != nil && v.bad.hidden:
		return g.refuse(c, op, true, Denial{Path: v.bad.path, Code: CodeHidden, Rule: v.bad.rule}, syscall.ENOENT)
	case v.bad != nil:
		d := Denial{Path: v.bad.path, Code: CodeUndeclaredWrite, Rule: writeRule(v.bad.rule), Hint: g.tempHint(v.set, op, v.bad.path)}
		if reason != "" {
			d.Rule, d.Hint = reason, reason
		}
		return g.refuse(c, op, true, d, syscall.EACCES)
	case len(v.asked) > 0:
		return g.ask(ctx, c, op, Request{Write: true, Rule: v.rule, Paths: v.asked, Content: v.content})
	}
	return 0
}

// verdicts collects the rules' verdicts on the names of one operation.
type verdicts struct {
	set   *policy.Set
	asked []string
	rule  string // of the first asked name
	bad   *refusal
	// content is Request.Content.
	content bool
	// tracked is Config.Tracked. If nil, temporary names are in questions as they are.
	tracked func(path string) bool
}

type refusal struct {
	path, rule string
	hidden     bool
}

func (v *verdicts) add(op fusefs.Op, t fusefs.Target) {
	d := v.set.DecideThrough(t.Path, t.Dir)
	switch d.Write {
	case policy.Allow:
		return
	case policy.Ask:
		if len(v.asked) == 0 {
			v.rule = d.Rule
		}
		name := v.askedName(t)
		if slices.Contains(v.asked, name) {
			return
		}
		if len(v.asked) < maxAsked {
			v.asked = append(v.asked, name)
		} else {
			v.bad = &refusal{t.Path, "too many names to ask about at once", false}
		}
		return
	case policy.Deny:
		// A nameless file gets its name, and the decision about it, later. An empty directory on
		// the way to a writable path contains nothing.
		onTheWay := t.Dir && (op == fusefs.OpTmpfile || op == fusefs.OpMkdir || op == fusefs.OpRmdir)
		if onTheWay && v.set.SomeWritable(t.Path) {
			return
		}
	}
	if v.bad == nil {
		v.bad = &refusal{t.Path, d.Rule, d.Write == policy.Hide}
	}
}

// askedName returns the name that a question is about: as for leases, that of the file which a known temporary name is for, so
// that a file that is written aside and renamed is one question. A name that git tracks is a file of its own.
func (v *verdicts) askedName(t fusefs.Target) string {
	if v.tracked == nil || t.Dir || t.Tree {
		return t.Path
	}
	dest, kind := v.set.Temps().Classify(t.Path)
	if kind != policy.Known || v.tracked(t.Path) || v.set.DecideThrough(dest, false).Write != policy.Ask {
		return t.Path
	}
	return dest
}

// ask requests a decision about names from the commander.
func (g *Guard) ask(ctx context.Context, c fusefs.Caller, op fusefs.Op, r Request) syscall.Errno {
	r.Agent, r.Op, r.Pid = g.cfg.Agent, string(op), c.Pid
	d := Denial{Path: r.Paths[0], Code: CodeNotApproved, Rule: r.Rule}
	if g.cfg.Asker != nil {
		var v Verdict
		var err error
		e := fusefs.Wait(ctx, func() {
			v, err = g.cfg.Asker.Ask(ctx, r)
		})
		if e != 0 {
			return g.crowded(c, op, r.Write, r.Paths[0], e)
		}
		if v.Allow && err == nil {
			return 0
		}
		if ctx.Err() != nil {
			return syscall.EINTR
		}
		d.Foreign = v.Foreign
		if d.Hint = v.Reason; v.By != "" {
			d.By, d.Reason = v.By, v.Reason
		}
	}
	return g.refuse(c, op, r.Write, d, syscall.EACCES)
}

// crowded returns the errno of an operation that must wait and cannot: the operation must be
// called again, or too many operations wait already.
func (g *Guard) crowded(c fusefs.Caller, op fusefs.Op, write bool, path string, e syscall.Errno) syscall.Errno {
	if e == fusefs.Restart {
		return fusefs.Restart
	}
	return g.refuse(c, op, write, Denial{Path: path, Code: CodeQuota, Rule: "too many operations of this agent wait for leases or approvals",
		Hint: "wait until the other programs of this agent continue, then try again"}, e)
}

// lease takes the leases of an operation that the policy allows. Temporary files take none.
func (g *Guard) lease(ctx context.Context, c fusefs.Caller, op fusefs.Op, targets []fusefs.Target) (fusefs.Ticket, syscall.Errno) {
	if len(targets) == 1 {
		if tk := g.held(op, targets[0]); tk != nil {
			return tk, 0
		}
	}
	req := LockRequest{Op: string(op), Pid: c.Pid}
	temps := g.set.Load().Temps()
	for _, t := range targets {
		if g.free(op, t) {
			continue
		}
		path := t.Path
		if !t.Dir && !t.Tree {
			dest, kind := temps.Classify(path)
			if kind == policy.Unknown {
				continue // the destination appears at the rename
			}
			path = dest
		}
		if g.exempted(path, t.Dir) {
			continue
		}
		path, above := leasable(path)
		if t.Tree || above {
			req.Trees = append(req.Trees, path)
		} else {
			req.Paths = append(req.Paths, path)
		}
	}
	if len(req.Paths)+len(req.Trees) == 0 {
		return noTicket{}, 0
	}
	slices.Sort(req.Paths)
	slices.Sort(req.Trees)
	req.Paths, req.Trees = slices.Compact(req.Paths), slices.Compact(req.Trees)
	tk, err, e := g.acquire(ctx, req)
	switch {
	case e != 0:
		return nil, g.crowded(c, op, true, targets[0].Path, e)
	case err == nil && tk != nil:
		return tk, 0
	}
	return nil, g.unleased(ctx, c, op, targets[0].Path, err)
}

// acquire takes leases, from memory if possible. The errno is that of fusefs.Wait.
func (g *Guard) acquire(ctx context.Context, req LockRequest) (tk fusefs.Ticket, err error, e syscall.Errno) { //nolint:revive,staticcheck // the errno is the last word
	if g.local != nil {
		if tk, err = g.local.AcquireLocal(req); !errors.Is(err, ErrMustWait) {
			return tk, err, 0
		}
	}
	e = fusefs.Wait(ctx, func() { tk, err = g.cfg.Locker.Acquire(ctx, req) })
	return tk, err, e
}

// held returns the ticket of an operation on one name if the agent holds the lease already.
func (g *Guard) held(op fusefs.Op, t fusefs.Target) fusefs.Ticket {
	if g.holder == nil || t.Dir || t.Tree || g.free(op, t) {
		return nil
	}
	path, kind := g.set.Load().Temps().Classify(t.Path)
	if kind == policy.Unknown || g.exempted(path, false) {
		return nil
	}
	return g.holder.Held(op, path)
}

// free reports whether an operation changes no content of the repository: it makes or touches a
// directory, or opens a file that has no name yet, or no more.
func (g *Guard) free(op fusefs.Op, t fusefs.Target) bool {
	if t.Path == "" || g.inStore(t.Path) || op == fusefs.OpTmpfile || t.Unlinked {
		return true
	}
	if !t.Dir || t.Tree {
		return false
	}
	switch op {
	case fusefs.OpMkdir, fusefs.OpSetattr, fusefs.OpSetxattr, fusefs.OpRemovexattr, fusefs.OpIoctl:
		return true
	}
	return false
}

func (g *Guard) exempted(path string, dir bool) bool {
	for _, p := range g.exempt {
		if p.CoversTree(path, dir) {
			return true
		}
	}
	return g.cfg.Ignore != nil && g.cfg.Ignore(path, dir)
}

func (g *Guard) unleased(ctx context.Context, c fusefs.Caller, op fusefs.Op, path string, err error) syscall.Errno {
	var locked *LockedError
	var limit *LimitError
	switch {
	case errors.As(err, &locked):
		g.stats.lockConflicts.Add(1)
		d := Denial{Path: path, Code: CodeFileLocked, Holder: locked.Holder, Since: locked.Since, Rule: locked.Reason}
		if locked.Path != "" {
			d.Path = locked.Path
		}
		d.Hint = lockedHint(d, locked.Until)
		return g.report(g.cfg.OnDenial, c, op, d, syscall.EBUSY)
	case errors.As(err, &limit):
		return g.report(g.cfg.OnDenial, c, op, Denial{Path: path, Code: limit.Code, Rule: limit.Error()}, limit.Errno)
	case ctx.Err() != nil:
		return syscall.EINTR
	}
	g.stats.lockdUnavailable.Add(1)
	g.cfg.Log.Warn("lease not available", "agent", g.cfg.Agent, "op", op, "path", path, "err", err)
	return g.report(g.cfg.OnDenial, c, op, Denial{Path: path, Code: CodeLockdUnavailable}, syscall.EAGAIN)
}

// noTicket is the ticket of an operation that needs no lease.
type noTicket struct{}

// Done implements fusefs.Ticket.
func (noTicket) Done() {}
