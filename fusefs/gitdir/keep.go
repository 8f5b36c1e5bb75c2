package gitdir

import (
	"strings"

	"polis/fusefs"
)

// The kernel may cache only what no one else can change. Other agents and the daemon add objects,
// move refs and replace packed-refs behind this mount, so those are looked up each time. An object
// never changes under its name, the directories of objects and refs are not removed, and only the
// agent changes its own part. Names of objects are not cached: maintenance removes them when it
// packs the objects. A cached name would be opened without a lookup, and a program that maps the
// file would be killed by SIGBUS.
const (
	keepOwn    = fusefs.KeepAll
	keepObject = fusefs.KeepAttr | fusefs.KeepData
	keepFile   = keepObject | fusefs.KeepName
	keepDir    = fusefs.KeepName | fusefs.KeepMode
	// Only its own mount sees an unfinished object. Its name is not cached: the object is renamed,
	// and the entry would be kept.
	keepTemp = fusefs.KeepAttr
)

var changedByOthers = map[string]bool{"index": true, "index.lock": true, "locked": true, "HEAD": true, "HEAD.lock": true, "logs/HEAD": true}

// Keep implements fusefs.Keeper.
func (g *Guard) Keep(path string) fusefs.Keep {
	top, rest, below := strings.Cut(path, "/")
	if top == "objects" && !strings.HasPrefix(path, quarantine) {
		return keepOfObjects(rest) // the daemon moves them when it publishes them
	}
	if Route(path, g.cfg.Worktree) == 1 {
		return keepOwn
	}
	switch top {
	case "": // the times of this directory show what other agents make
		return fusefs.KeepMode
	case "refs", "logs":
		// Deeper directories, and those of remotes, are removed with the last ref in them.
		if strings.TrimPrefix(rest, "refs/") == "remotes" {
			return 0
		}
		if !below || !strings.Contains(strings.TrimPrefix(rest, "refs/"), "/") && skeleton(strings.Split(path, "/")) {
			return keepDir
		}
		// This directory contains all agents' branches. It is removed when the last of them is
		// packed.
		if strings.TrimPrefix(path, "logs/") == "refs/heads/"+strings.TrimSuffix(agents, "/") {
			return keepDir | fusefs.KeepSharedDir
		}
	case "worktrees":
		return g.keepOfWorktree(rest)
	}
	return 0
}

func keepOfObjects(rest string) fusefs.Keep {
	dir, name, below := strings.Cut(rest, "/")
	switch {
	case strings.HasPrefix(name, "tmp_") && classifyObject([]string{"objects", dir, name}) == classTemp:
		return keepTemp
	case !below:
		switch {
		case dir == "", dir == "pack", dir == "info":
			return keepDir
		case len(dir) == 2 && isHex(dir): // removed when all objects in it are packed
			return keepDir | fusefs.KeepSharedDir
		}
	case len(dir) == 2 && isHex(dir):
		if (len(name) == 38 || len(name) == 62) && isHex(name) {
			return keepObject
		}
	case dir == "pack":
		// Packs are named by their content, as objects are.
		if stem, ext, ok := strings.Cut(name, "."); ok && strings.HasPrefix(stem, "pack-") && isHex(stem[5:]) {
			switch ext {
			case "pack", "idx", "rev":
				return keepObject
			}
		}
	}
	return 0
}

// keepOfWorktree returns what may be cached of a worktree's directory. The daemon writes the index
// of a worktree whose files it withholds, git makes index.lock beside it, and renaming a branch
// changes the HEAD of every worktree on it.
func (g *Guard) keepOfWorktree(rest string) fusefs.Keep {
	name, file, below := strings.Cut(rest, "/")
	switch {
	case name == "":
		return keepDir
	case name != g.cfg.Worktree:
		return 0
	case !below:
		return keepDir
	case changedByOthers[file]:
		return 0
	case file == "gitdir" || file == "commondir":
		return keepFile
	}
	return keepOwn
}

// Lasts implements fusefs.WriteOnce: two processes that make the same object at the same time do not replace each
// other's file. git repack replaces a pack by one with the same name and so the same content.
func (g *Guard) Lasts(path string) bool {
	return classify(path, g.cfg.Worktree) == classObject
}

// Generation implements fusefs.CacheableGuard: the rules never change after New.
func (*Guard) Generation() uint64 { return 0 }

// CachedVerdict implements fusefs.CacheableGuard. Unfinished objects are visible to their owner
// only, which is checked each time.
func (g *Guard) CachedVerdict(path string, dir bool) fusefs.CachedVerdict {
	if strings.HasPrefix(path, "objects/") && classify(path, g.cfg.Worktree) == classTemp || !g.Visible(path, dir) {
		return 0
	}
	return fusefs.Shown | fusefs.Readable
}

var (
	_ fusefs.CacheableGuard = (*Guard)(nil)
	_ fusefs.Keeper         = (*Guard)(nil)
	_ fusefs.WriteOnce      = (*Guard)(nil)
)
