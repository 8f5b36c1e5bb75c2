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
	return !g.conflicts(name) && !g.standsFor(name)
}

// agents begins the names of the branches that polis makes for agents.
const agents = "agent/"

// standsFor says whether a new ref's name is one by which others mean something
// else: the branch of another agent, also of one to come, and a tag with the
// name of another's branch, which git prefers to the branch (gitrevisions(7)).
func (g *Guard) standsFor(name string) bool {
	if g.owns(name) {
		return false
	}
	if branch, ok := strings.CutPrefix(name, "refs/heads/"); ok {
		return strings.HasPrefix(branch, agents) && branch != agents+g.cfg.Agent
	}
	tag, ok := strings.CutPrefix(name, "refs/tags/")
	if !ok {
		return false
	}
	branch := "refs/heads/" + tag
	return strings.HasPrefix(tag, agents) || branch == g.cfg.Target || !g.owns(branch) && g.exists(branch)
}

// many says that a new ref would be one too many.
func (g *Guard) many(name string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.owned) >= maxRefs && !g.owned[name] && !ofRemote(name)
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
