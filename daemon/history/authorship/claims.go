package authorship

import (
	"cmp"
	"context"
	"slices"
	"time"

	"polis/daemon/api"
)

// Former is an agent that was removed.
type Former struct {
	Name string
	// Head is the commit that its worktree was on.
	Head  string
	Added time.Time
}

// maxClaims bounds the agents whose commits are compared.
const maxClaims = 500

// claim is that an agent has a commit that the target has not.
type claim struct {
	agent string
	added time.Time
	// own: the commit is one that the agent's branch was at, and did not come by a merge into it.
	own bool
}

// claims returns which agents have which commits that the target has not, also agents that were removed.
func (f *Finder) claims(ctx context.Context, h History, target, agent, head string) (map[string][]claim, error) {
	out := map[string][]claim{}
	add := func(h History, base, head, agent string, added time.Time) {
		mainline := map[string]bool{}
		for _, id := range h.mainline(head) {
			mainline[id] = true
		}
		h.Between(base, head, func(id string) { out[id] = append(out[id], claim{agent: agent, added: added, own: mainline[id]}) })
	}
	if err := f.readHeads(ctx); err != nil {
		return nil, err
	}
	for _, o := range f.heads {
		if o.Name == agent && o.Head == head {
			add(h, target, head, agent, o.Added) // it can have objects that are in no other place
			continue
		}
		add(f.beyond, "", o.Head, o.Name, o.Added)
	}
	for id, parents := range f.beyond {
		if h[id] == nil {
			h[id] = parents
		}
	}
	return out, nil
}

// readHeads reads where all agents are and what the target has not of it, once.
func (f *Finder) readHeads(ctx context.Context) error {
	if f.beyond != nil {
		return nil
	}
	for _, a := range f.Agents(ctx) {
		at, err := f.Git.Head(ctx, a.Name)
		if err == nil && at != "" { // else it has no worktree now, and nothing can be found
			f.heads = append(f.heads, Former{Name: a.Name, Head: at, Added: a.CreatedAt})
		}
	}
	f.heads = append(f.removed(), f.heads...)
	f.heads = f.heads[max(0, len(f.heads)-maxClaims):]
	f.beyond = History{}
	if err := f.Git.Beyond(ctx, headsOf(f.heads), MaxHistory, f.beyond.Add); err != nil {
		return api.Errorf(api.CodeWorktreeFailed, "read the history of all agents: %w", err)
	}
	return nil
}

// removed returns the agents that were removed and whose commits may not be in the target.
func (f *Finder) removed() []Former {
	if f.Removed == nil {
		return nil
	}
	return slices.DeleteFunc(f.Removed(), func(r Former) bool { return r.Head == "" })
}

func headsOf(all []Former) (out []string) {
	for _, a := range all {
		out = append(out, a.Head)
	}
	return out
}

// owner returns the agent that made a commit, of those that have it. An agent that was forked from another, or whose
// branch began at that of another, has the other's commits, too: the task in which it was made decides, or else the
// agent on whose own branch it is that was added first.
func owner(all []claim, tasks map[string]string) string {
	if len(all) == 0 {
		return ""
	}
	made := slices.DeleteFunc(slices.Clone(all), func(c claim) bool { return tasks[c.agent] == "" })
	own := slices.DeleteFunc(slices.Clone(all), func(c claim) bool { return !c.own })
	for _, list := range [][]claim{made, own, all} {
		if len(list) > 0 {
			return slices.MinFunc(list, func(a, b claim) int { return cmp.Or(a.added.Compare(b.added), cmp.Compare(a.agent, b.agent)) }).agent
		}
	}
	return ""
}
