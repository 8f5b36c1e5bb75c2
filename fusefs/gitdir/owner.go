package gitdir

import "strings"

// mayHave reports whether the agent owns the ref or may make it.
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
	// git refuses a ref below another ref's name. A hostile agent can bypass git and block the
	// other ref.
	return !g.conflicts(name) && !g.standsFor(name)
}

// agents is the prefix of the branches that polis makes for agents.
const agents = "agent/"

// standsFor reports whether the name of a new ref has another meaning for others: it is the branch
// of another agent, present or future, or a tag with the name of another agent's branch, which git
// prefers to the branch (gitrevisions(7)).
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

// many reports whether a new ref exceeds a limit. One that is locked counts: git locks all refs of a transaction before
// it makes the first one.
func (g *Guard) many(name string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.owned[name] || ofRemote(name) {
		return false
	}
	n, size := len(g.owned)+1, len(name)
	for r := range g.owned {
		size += len(r)
	}
	for path := range g.locks {
		r := refName(path)
		if r != name && strings.HasPrefix(r, "refs/") && !g.owned[r] && !ofRemote(r) {
			n, size = n+1, size+len(r)
		}
	}
	return n > maxRefs || size > maxRefBytes
}

// conflicts reports whether a new ref would block another: one of its parents is a ref, or packed
// refs are below it.
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
