package gitdir

import (
	"strings"
	"syscall"

	"polis/fusefs"
)

// quarantine is the prefix of the directories in which git keeps objects that it may discard
// (tmp-objdir.h in git's sources). Each agent has its own. A push into the repository moves the objects from there to
// their final names.
const quarantine = "objects/tmp_objdir-"

// quarantineOf returns the directory of a quarantine that a path is or is in, "" if it is in none.
func quarantineOf(path string) string {
	if !strings.HasPrefix(path, quarantine) {
		return ""
	}
	dir, _, _ := strings.Cut(strings.TrimPrefix(path, "objects/"), "/")
	return dir
}

// moveQuarantined decides about a move into, in or out of a quarantine. A file there has one name, in a directory
// that keeps its name, so that what is checked when it is published is what stays. git renames where it cannot link.
func (g *Guard) moveQuarantined(c fusefs.Caller, op fusefs.Op, from, to fusefs.Target, b class) (fusefs.Ticket, syscall.Errno) {
	switch {
	case op != fusefs.OpRename:
		return nil, syscall.EPERM // git tries this first
	case from.Tree || to.Tree || quarantineOf(from.Path) == "" || g.busyMoving(from.Path) || g.busyMoving(to.Path):
	case quarantineOf(from.Path) == quarantineOf(to.Path):
		return &ticket{}, 0
	case b == classObject || b == classPack:
		if t, ok := g.holdAlone(from.Path, nil); ok {
			return t, 0
		}
	}
	return nil, g.deny(c, op, to.Path, "UNDECLARED_WRITE", hintObject)
}

// busyMoving reports whether a name is being published under another one.
func (g *Guard) busyMoving(path string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.moving[path] > 0
}

// holdAlone is hold for a name that nothing else moves.
func (g *Guard) holdAlone(path string, ends *lockFile) (fusefs.Ticket, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if ends != nil && g.locks[ends.path] != ends || g.moving[path] > 0 {
		return nil, false
	}
	g.moving[path]++
	return &ticket{g: g, move: path, ends: ends}, true
}

// renameTemp lets git repack give an unfinished pack another temporary name. One that was published under a second
// name keeps its own: it must not be written to any more.
func (g *Guard) renameTemp(from, to string, f *lockFile) (fusefs.Ticket, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.made[from] || g.made[to] || g.sealed[from] || g.moving[from] > 0 || g.moving[to] > 0 || g.locks[f.path] != f {
		return nil, false
	}
	g.moving[from]++
	return &ticket{g: g, move: from, ends: f, to: to}, true
}
