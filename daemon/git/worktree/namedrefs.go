package worktree

import "strings"

// maxNamed is the most branches that Kept has because of their names.
const maxNamed = 100

// takeNamed remembers the branches of the project that have the names of agents' branches.
func (r *projectRefs) takeNamed() {
	r.named = map[string]string{}
	for name, value := range r.values {
		if strings.HasPrefix(name, agentsBranches) && len(r.named) < maxNamed {
			r.named[name] = value
		}
	}
}

// keepNamed adds them to the refs that agents do not have as the project has them, if that is so.
func (r projectRefs) keepNamed(shared, kept map[string]string) {
	for name, value := range r.named {
		if shared[name] != value {
			kept[name] = "names that begin with agent/ are those of agents' own branches"
		}
	}
}
