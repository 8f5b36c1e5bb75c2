package gitdir

import (
	"context"
	"fmt"
	"strings"
	"syscall"

	"polis/fusefs"
)

// Hints of refusals.
const (
	hintTarget  = "the target branch moves only by polisctl merge"
	hintRef     = "this ref belongs to another agent or to the user; make a branch of your own"
	hintName    = "this name would stand for the work of others; use another one"
	hintRemote  = "what is known of remotes is written by those who may fetch: git.remote in polisd.toml"
	hintObject  = "objects can be added, never changed; of them, you can remove only your own that no branch or tag reaches"
	hintPack    = "packing the shared objects is the daemon's; objects, packs that git receives, and packs of your own objects can be added"
	hintForeign = "this part of the git directory is shared and read-only; an agent has branches, tags and notes of its own, and refs in all other namespaces"
	hintLost    = "the lock was given to others meanwhile: it was kept for too long, or the lock server was away"
	hintReader  = "you are read-only: git can show, compare and search here, and changes nothing; a clone in $HOME or /tmp can be changed"
	hintOdd     = "links and special files are not allowed in the shared git directory"
)

// Write implements fusefs.Guard. It refuses every combination that is not allowed here.
func (g *Guard) Write(ctx context.Context, c fusefs.Caller, op fusefs.Op, targets ...fusefs.Target) (fusefs.Ticket, syscall.Errno) {
	if len(targets) == 0 {
		return nil, g.deny(c, op, "", "UNDECLARED_WRITE", hintForeign)
	}
	if g.cfg.ReadOnly {
		return nil, g.refuseWith(c, op, targets[0].Path, syscall.EROFS, Denial{Code: "READ_ONLY", Hint: hintReader})
	}
	switch op {
	case fusefs.OpRename, fusefs.OpLink:
		if len(targets) == 2 {
			if from, to := targets[0], targets[1]; from.Source || op == fusefs.OpRename {
				return g.move(c, op, from, to)
			}
			return g.move(c, op, targets[1], targets[0]) // of a link, the new name is the first
		}
		return nil, g.deny(c, op, targets[0].Path, "UNDECLARED_WRITE", hintForeign)
	case fusefs.OpExchange, fusefs.OpSymlink, fusefs.OpMknod, fusefs.OpTmpfile:
		for _, t := range targets {
			if op == fusefs.OpExchange && quarantineOf(t.Path) != "" {
				return nil, g.deny(c, op, t.Path, "UNDECLARED_WRITE", hintOdd) // as for moves
			}
			if classify(t.Path, g.cfg.Worktree) != classPrivate && (op != fusefs.OpSymlink || !g.submodule(t.Path)) {
				return nil, g.deny(c, op, t.Path, "UNDECLARED_WRITE", hintOdd)
			}
		}
		if e := g.room(c, op, targets[0].Path); e != 0 {
			return nil, e
		}
		return &ticket{}, 0
	}
	for _, t := range targets {
		if e := g.single(c, op, t); e != 0 {
			return nil, e
		}
	}
	path := targets[0].Path
	if (op == fusefs.OpOpenWrite || op == fusefs.OpCreate) && g.isReflog(path) {
		g.publishLocked(ctx)
	}
	switch op {
	case fusefs.OpOpenWrite:
		return g.open(path, false, nil), 0
	case fusefs.OpCreate:
		l, tracked := lockOf(path, g.cfg.Worktree)
		if classify(path, g.cfg.Worktree) == classTemp {
			return g.open(path, true, g.takeTemp(c, path)), 0
		}
		if !tracked {
			return g.open(path, false, nil), 0
		}
		lock, e := g.takeLock(ctx, c, op, path, l)
		if e != 0 {
			return nil, e
		}
		return g.open(path, false, lock), 0
	case fusefs.OpUnlink:
		return &ticket{g: g, ends: g.lockAt(path)}, 0
	}
	return &ticket{}, 0
}

// submodule reports whether a path is in the repository that git keeps for a submodule of the
// agent's worktree. Only the agent uses it.
func (g *Guard) submodule(path string) bool {
	return strings.HasPrefix(path, "worktrees/"+g.cfg.Worktree+"/modules/")
}

// crosses reports whether a move leads into or out of those repositories. Links are allowed only
// in them, and git on the host would follow a link in place of a reflog or an index.
func (g *Guard) crosses(from, to string) bool {
	modules := "worktrees/" + g.cfg.Worktree + "/modules"
	return from == modules || to == modules || g.submodule(from) != g.submodule(to)
}

// single decides about an operation on one name.
func (g *Guard) single(c fusefs.Caller, op fusefs.Op, t fusefs.Target) syscall.Errno {
	path := t.Path
	refuse := func(hint string) syscall.Errno {
		if hint == hintRef && ofRemote(refName(path)) {
			hint = hintRemote
		}
		return g.deny(c, op, path, "UNDECLARED_WRITE", hint)
	}
	removes := op == fusefs.OpUnlink || op == fusefs.OpRmdir
	switch classify(path, g.cfg.Worktree) {
	case classPrivate, classWorktree:
		if quarantineOf(path) != "" && g.busyMoving(path) {
			return refuse(hintObject)
		}
		return g.room(c, op, path)
	case classSkeleton:
		if op == fusefs.OpMkdir {
			return 0
		}
		return refuse(hintForeign)
	case classObjectDir:
		if op == fusefs.OpMkdir {
			return 0
		}
		if op == fusefs.OpRmdir {
			return syscall.ENOTEMPTY // git prune tries this, and is not disturbed
		}
		return refuse(hintObject)
	case classTemp:
		if op == fusefs.OpCreate && g.full(0) {
			return g.refuseWith(c, op, path, syscall.EDQUOT, Denial{Code: codeQuota, Hint: g.quotaHint()})
		}
		if e := g.room(c, op, path); e != 0 {
			return e
		}
		return g.temp(op, path, refuse)
	case classPackKeep:
		return g.keepFile(op, path, refuse)
	case classPack:
		if op == fusefs.OpSetattr {
			return syscall.EACCES // freshening, as below
		}
		if op == fusefs.OpUnlink {
			return 0 // as below
		}
		return refuse(hintObject)
	case classObject:
		if op == fusefs.OpSetattr {
			// git sets the time of an object that it would have written. If that fails it writes
			// the object again. This is not recorded as a refusal.
			g.freshen(path)
			return syscall.EACCES
		}
		if op == fusefs.OpUnlink {
			return 0 // git gc and git prune: these are the agent's own objects, which no shared ref reaches
		}
		return refuse(hintObject)
	case classRef:
		return g.ref(op, t, refuse)
	case classRefLock:
		return g.refLock(c, op, path, refuse)
	case classReflog:
		if op == fusefs.OpMkdir || op == fusefs.OpRmdir || t.Dir {
			return 0
		}
		if name := refName(path); g.mayHave(name) || removes && g.owns(name) {
			return 0
		}
		return refuse(hintRef)
	case classPackedTmp:
		return g.lockFile(op, path, refuse)
	case classPacked:
		return refuse("packed-refs is replaced as a whole, and only where your own refs differ")
	}
	if op == fusefs.OpRmdir && (path == "worktrees" || path == "worktrees/"+g.cfg.Worktree) {
		return syscall.ENOTEMPTY // git tries this when the last file below a name is removed
	}
	if strings.HasPrefix(path, "objects/pack") {
		if op == fusefs.OpSetattr {
			g.freshen(path)
			return syscall.EACCES // as above
		}
		return refuse(hintPack)
	}
	return refuse(hintForeign)
}

// temp decides about an unfinished object. It belongs to the mount that made it until it is
// published; then its second name can only be removed.
func (g *Guard) temp(op fusefs.Op, path string, refuse func(string) syscall.Errno) syscall.Errno {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.moving[path] > 0:
	case op == fusefs.OpCreate && !g.made[path]:
		g.made[path] = true
		return 0
	case !g.made[path]:
	case op == fusefs.OpUnlink:
		delete(g.made, path)
		delete(g.sealed, path)
		return 0
	case op == fusefs.OpOpenWrite || op == fusefs.OpCreate || op == fusefs.OpSetattr || op == fusefs.OpFallocate || op == fusefs.OpCopyRange:
		if !g.sealed[path] {
			return 0
		}
	}
	g.mu.Unlock()
	defer g.mu.Lock()
	return refuse(hintObject)
}

// ref decides about a ref file: it is only removed, and changes through its lock file.
func (g *Guard) ref(op fusefs.Op, t fusefs.Target, refuse func(string) syscall.Errno) syscall.Errno {
	switch op {
	case fusefs.OpMkdir, fusefs.OpRmdir:
		return 0
	case fusefs.OpUnlink:
		if g.owns(t.Path) {
			// A ref that is packed as well stays (git pack-refs). The name of a removed ref is
			// free for every agent.
			if refs, err := g.packedRefs(); err == nil && refs[t.Path] == "" {
				g.disown(t.Path)
			}
			return 0
		}
	}
	if t.Path == g.cfg.Target {
		return refuse(hintTarget)
	}
	return refuse(hintRef)
}

func (g *Guard) refLock(c fusefs.Caller, op fusefs.Op, path string, refuse func(string) syscall.Errno) syscall.Errno {
	name := refName(path)
	if name == g.cfg.Target {
		return refuse(hintTarget)
	}
	if op == fusefs.OpCreate && g.many(name) {
		return g.refuseWith(c, op, path, syscall.EDQUOT, Denial{Code: codeQuota, Hint: fmt.Sprintf("this agent has as many branches and tags as it may, %d with names of %d bytes together: delete some", maxRefs, maxRefBytes)})
	}
	if op == fusefs.OpCreate && g.standsFor(name) {
		return refuse(hintName)
	}
	if op == fusefs.OpCreate && !validRef(name) {
		return refuse("git does not know refs of such names (git-check-ref-format(1))")
	}
	if !g.mayHave(name) {
		return refuse(hintRef)
	}
	return g.lockFile(op, path, refuse)
}

// lockFile decides about a lock file. It belongs to the mount that made it. The mount or the
// daemon removes one that no process will remove.
func (g *Guard) lockFile(op fusefs.Op, path string, refuse func(string) syscall.Errno) syscall.Errno {
	g.mu.Lock()
	mine, free := g.locks[path] != nil, g.moving[path] == 0
	g.mu.Unlock()
	switch op {
	case fusefs.OpCreate:
		// The kernel sends CREATE only for a missing name. O_EXCL decides a race between mounts on
		// the shared directory.
		if free {
			return 0
		}
	case fusefs.OpUnlink, fusefs.OpOpenWrite, fusefs.OpSetattr, fusefs.OpFallocate, fusefs.OpCopyRange:
		if free && mine {
			return 0
		}
	}
	return refuse("another process holds this lock")
}

// keepFile decides about the file with which git protects a new pack until a ref uses it.
func (g *Guard) keepFile(op fusefs.Op, path string, refuse func(string) syscall.Errno) syscall.Errno {
	pack := strings.TrimSuffix(path, ".keep") + ".pack"
	g.mu.Lock()
	_, mine := g.packs[pack]
	g.mu.Unlock()
	if op == fusefs.OpCreate && !mine && g.loose(pack) {
		return refuse("the pack is not this agent's to keep")
	}
	return g.lockFile(op, path, refuse)
}
