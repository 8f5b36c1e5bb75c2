package gitdir

import (
	"strings"

	"polis/fusefs"
)

// What the kernel may cache of the shared directory follows from who else can change it. Other
// agents and the daemon add objects, move refs and replace packed-refs, all of them behind this
// mount; so what they can change is looked up each time. But an object never changes under its
// name, the directories that hold objects and refs stay where they are, and only the agent
// changes its own part. Names of objects go, when maintenance packs them: a cached name would be
// opened without a lookup, and found missing only when the pages of a mapping are read, which
// kills the program.
const (
	keepOwn    = fusefs.KeepAll
	keepObject = fusefs.KeepAttr | fusefs.KeepData
	keepFile   = keepObject | fusefs.KeepName
	keepDir    = fusefs.KeepName | fusefs.KeepMode
	// An unfinished object is only its own mount's. Its name is not kept: it is
	// renamed to that of the object, and would be kept as that.
	keepTemp = fusefs.KeepAttr
)

var changedByOthers = map[string]bool{"index": true, "index.lock": true, "locked": true, "HEAD": true, "HEAD.lock": true, "logs/HEAD": true}

// Keep is part of fusefs.Keeper.
func (g *Guard) Keep(path string) fusefs.Keep {
	top, rest, below := strings.Cut(path, "/")
	if top == "objects" && !strings.HasPrefix(path, quarantine) {
		return keepOfObjects(rest) // the daemon moves them when they are published
	}
	if Route(path) == 1 {
		return keepOwn
	}
	switch top {
	case "": // what others make here shows in its times
		return fusefs.KeepMode
	case "refs", "logs":
		// Deeper ones come and go with the refs in them, and so do remotes.
		if strings.TrimPrefix(rest, "refs/") == "remotes" {
			return 0
		}
		if !below || !strings.Contains(strings.TrimPrefix(rest, "refs/"), "/") && skeleton(strings.Split(path, "/")) {
			return keepDir
		}
		// All agents' branches are in it. It goes when the last of them is packed.
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
		case len(dir) == 2 && isHex(dir): // goes when all that is in it was packed
			return keepDir | fusefs.KeepSharedDir
		}
	case len(dir) == 2 && isHex(dir):
		if (len(name) == 38 || len(name) == 62) && isHex(name) {
			return keepObject
		}
	case dir == "pack":
		// Named by their content, as objects are.
		if stem, ext, ok := strings.Cut(name, "."); ok && strings.HasPrefix(stem, "pack-") && isHex(stem[5:]) {
			switch ext {
			case "pack", "idx", "rev":
				return keepObject
			}
		}
	}
	return 0
}

// keepOfWorktree: the daemon writes the index of a worktree whose files it withholds, git puts
// index.lock beside it, and renaming a branch changes the HEAD of every worktree on it.
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

// Lasts is part of fusefs.WriteOnce: two agents that make the same object at the
// same time do not replace each other's.
func (g *Guard) Lasts(path string) bool {
	c := classify(path, g.cfg.Worktree)
	return c == classObject || c == classPack
}

// Generation is part of fusefs.CacheableGuard: the rules are those of New.
func (*Guard) Generation() uint64 { return 0 }

// CachedVerdict is part of fusefs.CacheableGuard. Only their owner sees unfinished objects; that
// is checked each time.
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
