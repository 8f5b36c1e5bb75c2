package gitdir

import "strings"

// mayHave says whether the agent owns the ref or may make it.
func (g *Guard) mayHave(name string) bool {
	if name == g.cfg.Target {
		return false
	}
	if ofRemote(name) && !g.cfg.Remotes {
		return false
	}
	if g.exists(name) {
		return g.owns(name)
	}
	// git refuses names that are a directory of one another; a hostile agent
	// does not ask git, and would block the other ref with it.
	return !g.conflicts(name)
}

// conflicts says whether a new ref would be in another ref's way: one of its
// parents is a ref, or packed refs are below it.
func (g *Guard) conflicts(name string) bool {
	for p := name; ; {
		i := strings.LastIndexByte(p, '/')
		if i < 0 {
			break
		}
		if p = p[:i]; p == g.cfg.Target || strings.Count(p, "/") >= 2 && g.exists(p) {
			return true
		}
	}
	if strings.HasPrefix(g.cfg.Target, name+"/") {
		return true
	}
	refs, err := g.packedRefs()
	if err != nil {
		return true
	}
	for r := range refs {
		if strings.HasPrefix(r, name+"/") {
			return true
		}
	}
	return false
}
