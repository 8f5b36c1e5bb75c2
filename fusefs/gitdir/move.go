package gitdir

import (
	"syscall"

	"polis/fusefs"
	"polis/fusefs/gitdir/level"
)

// move decides about rename and link, which publish files.
func (g *Guard) move(c fusefs.Caller, op fusefs.Op, from, to fusefs.Target) (fusefs.Ticket, syscall.Errno) {
	a, b := classify(from.Path, g.cfg.Worktree), classify(to.Path, g.cfg.Worktree)
	refuse := func(path, hint string) (fusefs.Ticket, syscall.Errno) {
		return nil, g.deny(c, op, path, "UNDECLARED_WRITE", hint)
	}
	var lock *lockFile
	if op == fusefs.OpRename {
		lock = g.lockAt(from.Path)
	}
	hold := func() (fusefs.Ticket, syscall.Errno) {
		if t, ok := g.hold(from.Path, lock); ok {
			return t, 0
		}
		return refuse(to.Path, hintLost)
	}
	switch {
	case g.crosses(from.Path, to.Path):
		return refuse(to.Path, hintOdd)
	case quarantineOf(from.Path) != "" || quarantineOf(to.Path) != "":
		return g.moveQuarantined(c, op, from, to, b)
	case a == classPrivate && b == classPrivate:
		t := &ticket{g: g, ends: lock}
		if lock != nil && lock.lock.Level == level.Exclusive && to.Path == "gc.pid" {
			t.to = to.Path
		}
		return t, 0
	case op == fusefs.OpRename && a == classWorktree && b == classWorktree:
		return &ticket{g: g, ends: lock}, 0
	case op == fusefs.OpRename && a == classTemp && b == classTemp && lock != nil && !g.loose(to.Path):
		if t, ok := g.renameTemp(from.Path, to.Path, lock); ok {
			return t, 0
		}
		return refuse(to.Path, hintObject)
	case a == classTemp && (b == classObject || b == classPack) && g.mine(from.Path):
		if t, ok := g.holdAlone(from.Path, lock); ok {
			return t, 0
		}
		return refuse(to.Path, hintLost)
	case op != fusefs.OpRename:
	case a == classRefLock && b == classRef && refName(from.Path) == to.Path && lock != nil:
		if to.Path == g.cfg.Target {
			return refuse(to.Path, hintTarget)
		}
		if !g.valid(from.Path) {
			return nil, g.refuseWith(c, op, to.Path, syscall.EAGAIN, Denial{Code: "LOCKD_UNAVAILABLE", Hint: hintLost})
		}
		if g.mayHave(to.Path) {
			return hold()
		}
		return refuse(to.Path, hintRef)
	case a == classPackedTmp && b == classPacked && lock != nil:
		return hold()
	case (a == classReflog || a == classWorktree) && (b == classReflog || b == classWorktree) && !from.Tree && !to.Tree:
		if (a == classWorktree || g.mayHave(refName(from.Path))) && (b == classWorktree || g.mayHave(refName(to.Path))) {
			return &ticket{}, 0
		}
		return refuse(to.Path, hintRef)
	}
	if b == classObject || a == classObject || b == classPack || a == classPack {
		return refuse(to.Path, hintObject)
	}
	return refuse(to.Path, hintForeign)
}
